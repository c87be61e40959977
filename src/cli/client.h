// SPDX-License-Identifier: Apache-2.0
// The CLI's side of the HTTP API: one connection per call, to sandboxd's unix socket or to
// http://host:port with a bearer token. Blocking, with a deadline for everything but the lines of a
// running command. An answer of the API that is no success comes back as an Error whose message is
// the server's own.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "base/json.h"
#include "base/result.h"

namespace sallyport::cli {

inline constexpr std::string_view kDefaultApi = "unix:/run/sallyport/sandboxd.sock";
inline constexpr std::size_t kMaxAnswer = 64U << 20;
inline constexpr std::size_t kMaxLine = 16U << 20;

// Where the API is. Parsed before anything is sent.
struct ApiAddress {
  std::string text;       // as the user wrote it
  std::string unix_path;  // or
  std::string host;
  std::string port;

  static Result<ApiAddress> parse(std::string_view text);
};

class Client {
 public:
  Client(ApiAddress address, std::string token)
      : address_(std::move(address)), token_(std::move(token)) {}

  // `target` is path and query, encoded. Answers the body, or {} for an empty one.
  [[nodiscard]] Result<json::value> call(
      std::string_view method, const std::string& target,
      const std::optional<json::value>& body = std::nullopt) const;

  // Hands over each line of an ndjson answer as it comes. The callback ends the call by answering
  // false.
  using OnLine = std::function<bool(std::string_view line)>;
  [[nodiscard]] Result<> stream(std::string_view method, const std::string& target,
                                const std::optional<json::value>& body,
                                const OnLine& on_line) const;

 private:
  ApiAddress address_;
  std::string token_;
};

// One path segment or query value.
[[nodiscard]] std::string encode(std::string_view text);

}  // namespace sallyport::cli
