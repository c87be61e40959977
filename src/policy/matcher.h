// SPDX-License-Identifier: Apache-2.0
// Which requests of a domain a rule applies to: path, method, query and headers, each exact, prefix
// or RE2 (FW-150 to FW-164). Compiled when the policy is set, linear to run. A matcher selects, it
// never blocks (FW-105).
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"

namespace re2 {
class RE2;
}

namespace sallyport::policy {

// One pattern costs at most this much memory, program and lazily built automaton together; a bigger
// one is refused when the policy is set.
inline constexpr std::size_t kMaxRegexMemory = 256U << 10;

enum class CaseRule { sensitive, insensitive };

class StringMatch {
 public:
  enum class Kind { exact, starts_with, regex };

  static StringMatch exact(std::string text, CaseRule rule = CaseRule::sensitive);
  static StringMatch starts_with(std::string text, CaseRule rule = CaseRule::sensitive);
  // Unanchored (FW-161). Text that is not UTF-8 is searched as well: its bad bytes match no
  // character.
  static Result<StringMatch> regex(std::string text, CaseRule rule = CaseRule::sensitive);

  [[nodiscard]] bool matches(std::string_view text) const;
  [[nodiscard]] Kind kind() const { return kind_; }
  [[nodiscard]] const std::string& text() const { return text_; }  // as the user wrote it

 private:
  StringMatch(Kind kind, std::string text, CaseRule rule)
      : kind_(kind), text_(std::move(text)), case_(rule) {}

  Kind kind_;
  std::string text_;
  CaseRule case_;
  std::shared_ptr<const re2::RE2> regex_;
};

// At least one of the two is set (FW-162).
struct KeyValueMatch {
  std::optional<StringMatch> key;
  std::optional<StringMatch> value;
};

// Every dimension given must hold (FW-150).
struct RequestMatch {
  std::optional<StringMatch> path;
  std::vector<std::string> method;   // any of them; empty: any method
  std::vector<KeyValueMatch> query;  // all of them, each by any parameter
  std::vector<KeyValueMatch>
      headers;  // all of them, each by any header line; keys without regard to case
};

// A request as matchers see it: made once per request, borrows what it was made from.
class RequestView {
 public:
  using Header = std::pair<std::string_view, std::string_view>;

  // `target` in origin form: "/path?query". `headers` one per line, lines of one name not joined
  //
  RequestView(std::string_view method, std::string_view target, std::span<const Header> headers);

  [[nodiscard]] std::string_view method() const { return method_; }
  [[nodiscard]] std::string_view raw_path() const { return raw_path_; }
  // Unreserved bytes percent-decoded, other escapes in upper case, dot segments removed (RFC 3986
  // s6.2.2).
  [[nodiscard]] std::string_view canonical_path() const { return canonical_path_; }
  // Split at `&`, percent-decoded, `+` is a space; a parameter without `=` has an empty value
  //
  [[nodiscard]] const std::vector<std::pair<std::string, std::string>>& query() const {
    return query_;
  }
  [[nodiscard]] std::span<const Header> headers() const { return headers_; }

 private:
  std::string_view method_;
  std::string_view raw_path_;
  std::string canonical_path_;
  std::vector<std::pair<std::string, std::string>> query_;
  std::span<const Header> headers_;
};

// D-11: a rule that hands out a credential wants both forms of the path to match, any other rule
// either.
enum class PathForms { both, either };

[[nodiscard]] bool matches(const RequestMatch& match, const RequestView& request, PathForms forms);

}  // namespace sallyport::policy
