// SPDX-License-Identifier: Apache-2.0
// Identifiers and names: what we generate, and what we accept.
#pragma once

#include <string>
#include <string_view>

#include "store/store.h"

namespace sallyport::sandbox {

[[nodiscard]] std::string new_session_id();    // "sbx_" and 20 of [a-z0-9]
[[nodiscard]] std::string new_command_id();    // "cmd_..."
[[nodiscard]] std::string new_sandbox_name();  // "brisk-otter-4f2k9x"
// ^[a-zA-Z0-9_-]+$, at most 128, and none of the words that the API's paths use.
[[nodiscard]] bool is_sandbox_name(std::string_view name);
[[nodiscard]] bool is_session_id(std::string_view id);

[[nodiscard]] store::Millis now_ms();

}  // namespace sallyport::sandbox
