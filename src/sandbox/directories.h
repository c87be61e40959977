// SPDX-License-Identifier: Apache-2.0
// The directories of one sandbox: <run_dir>/sandboxes/<id> lives as long as it runs,
// <state_dir>/sandboxes/<id> holds its disk and its egress log. Root's alone.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"

namespace sallyport::sandbox {

[[nodiscard]] Result<> make_directory(const std::string& path);  // 0700; the parent exists
void remove_directory(
    const std::string& path);  // with all it holds; never follows a link out, nor a mount
void keep_only_logs(
    const std::string& state_dir);  // of a sandbox that has stopped: the egress log stays
[[nodiscard]] std::vector<std::string> names_in(const std::string& directory);

}  // namespace sallyport::sandbox
