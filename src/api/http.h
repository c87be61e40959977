// SPDX-License-Identifier: Apache-2.0
// A request and a reply as the resources see them: no sockets, no Beast. A reply is either a JSON
// value or a stream of lines that a coroutine writes until it returns.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"

namespace sallyport::api {

namespace asio = boost::asio;

// Who asks. Without a team (the unix socket: whoever may open it owns the node) every team's
// sandboxes are visible.
struct Principal {
  std::optional<std::string> team;
  std::string name;  // for the log
};

struct Call {
  std::string method;
  std::string path;                           // as sent, without query
  std::map<std::string, std::string> params;  // {name} parts of the route, percent-decoded
  std::vector<std::pair<std::string, std::string>> query;  // decoded, in order, repeated keys kept
  std::string body;
  Principal principal;

  [[nodiscard]] const std::string& param(const std::string& name) const;
  [[nodiscard]] std::optional<std::string> query_value(
      std::string_view key) const;  // the first, absent when empty
};

// Where a stream writes. A write waits until the client took it, and fails once the client is gone
// or too slow.
class Output {
 public:
  virtual ~Output() = default;
  [[nodiscard]] virtual asio::awaitable<Result<>> write(std::string text) = 0;
};

struct Reply {
  unsigned status = 200;
  json::value body;
  std::string content_type = "application/json";
  // Set: `body` is not used; the status line goes out before the first write.
  std::function<asio::awaitable<void>(Output&)> stream;
  std::vector<std::pair<std::string, std::string>> headers;
};

inline constexpr std::string_view kNdjson =
    "application/x-ndjson";  // clients compare it for equality

// Code to status and error body (spec/api.md 1.1).
[[nodiscard]] Reply error_reply(unsigned status, std::string_view code, std::string_view message);
[[nodiscard]] Reply error_reply(const Error& error);
[[nodiscard]] Reply json_reply(json::value body);

// "%2F" decoded; nothing when a sequence is broken, decodes to NUL, or the result is not UTF-8.
[[nodiscard]] std::optional<std::string> percent_decode(std::string_view text, bool plus_is_space);

}  // namespace sallyport::api
