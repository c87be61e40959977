// SPDX-License-Identifier: Apache-2.0
// Bearer tokens of the TCP listener. The configuration holds SHA-256 hashes, never tokens; a token
// may be bound to a team, and then sees only that team's sandboxes.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/http.h"
#include "base/result.h"

namespace sallyport::api {

struct Token {
  std::string name;
  std::array<std::uint8_t, 32> sha256{};
  std::optional<std::string> team;
};
[[nodiscard]] Result<Token> make_token(std::string name, std::string_view sha256_hex,
                                       std::optional<std::string> team);

// `authorization` is the header's value. Nothing: 401.
[[nodiscard]] std::optional<Principal> authenticate(const std::vector<Token>& tokens,
                                                    std::string_view authorization);

}  // namespace sallyport::api
