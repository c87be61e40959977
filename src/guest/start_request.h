// SPDX-License-Identifier: Apache-2.0
// The body of POST /v1/processes (guest/protocol.h) as a value, with its two directions: the
// supervisor renders, the agent parses. Says nothing about whether the command exists: spawn.h
// finds that out.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"

namespace sallyport::guest {

inline constexpr std::size_t kMaxStartRequest =
    4U << 20;  // more than the kernel takes as arguments and environment

struct StartRequest {
  std::string command;
  std::vector<std::string> args = {};
  std::string cwd = {};  // empty: the user's home
  std::vector<std::pair<std::string, std::string>> env =
      {};  // complete; a later entry of the same name is refused
  std::string user = "ubuntu";
  std::uint64_t timeout_ms = 0;  // 0: none

  bool operator==(const StartRequest&) const = default;
};

[[nodiscard]] std::string render_start_request(const StartRequest& request);
[[nodiscard]] Result<StartRequest> parse_start_request(std::string_view body);

}  // namespace sallyport::guest
