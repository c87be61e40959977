// SPDX-License-Identifier: Apache-2.0
// Runs a command in a sandbox and plays its output here: the ndjson of spec/api.md 1.6 to the bytes
// of stdout and stderr as they come, and the exit status. Ctrl-C and a termination reach the
// command, not just this program.
#pragma once

#include <string>

#include "cli/cli.h"

namespace sallyport::cli {

// The exit status of the command, or an error.
[[nodiscard]] Result<int> run_command(const Session& session, const Client& client,
                                      const std::string& session_id, const json::object& request);

}  // namespace sallyport::cli
