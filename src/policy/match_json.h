// SPDX-License-Identifier: Apache-2.0
// The `match` of a rule from and to JSON (spec 2.1; refusals ).
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "base/json.h"
#include "base/result.h"
#include "policy/matcher.h"

namespace sallyport::policy {

inline constexpr std::size_t kMaxMatchText = 4096;   // bytes of one exact, startsWith or regex
inline constexpr std::size_t kMaxMatchEntries = 32;  // methods, queryString, headers, each
inline constexpr std::size_t kMaxRegexes = 1024;     // in one policy

// What is counted over the whole policy while it is read.
struct RuleBudget {
  std::size_t regexes = 0;
};

[[nodiscard]] Result<RequestMatch> match_from_json(const json::value& value,
                                                   const std::string& path, RuleBudget& budget);
[[nodiscard]] json::value render_match(const RequestMatch& match);

// RFC 9110 s5.6.2: what a method and a header name are made of.
[[nodiscard]] bool is_token(std::string_view text);

}  // namespace sallyport::policy
