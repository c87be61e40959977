// SPDX-License-Identifier: Apache-2.0
// What must hold before the daemon touches anything, each with a sentence that says what to do
// about it.
#pragma once

#include <string>

#include "base/fd.h"
#include "base/result.h"
#include "daemon/config.h"

namespace sallyport::daemon {

[[nodiscard]] Result<> check_machine();
// Makes state_dir and run_dir (0700) and takes the lock that keeps a second daemon out. Held as
// long as the Fd lives.
[[nodiscard]] Result<Fd> claim_directories(const Config& config);
// A sibling of our own executable.
[[nodiscard]] Result<std::string> program_beside_us(const std::string& name);

}  // namespace sallyport::daemon
