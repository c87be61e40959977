// SPDX-License-Identifier: Apache-2.0
// Mounts by the file-descriptor calls (fsopen, open_tree, move_mount): a mount is complete, options
// and id mapping included, before it has a place anybody could see.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "base/fd.h"
#include "base/result.h"
#include "host/disk.h"

namespace sallyport::host {

using MountOptions = std::vector<std::pair<std::string, std::string>>;  // value empty: a flag

// A mount that is nowhere yet. `attributes`: MOUNT_ATTR_*.
[[nodiscard]] Result<Fd> new_mount(const std::string& type, const std::string& source,
                                   const MountOptions& options, unsigned attributes);
// A detached copy of what is mounted at `path`.
[[nodiscard]] Result<Fd> clone_mount(const std::string& path);
// Ids 0.. of the mounted file system appear as range.first.. .
[[nodiscard]] Result<> map_ids(const Fd& mount, const IdRange& range);
[[nodiscard]] Result<> place_mount(const Fd& mount, const std::string& at);

[[nodiscard]] Result<bool> is_mount_point(const std::string& path);
// Detaches every mount stacked at `path`; no error if there is none.
[[nodiscard]] Result<> unmount_all(const std::string& path);
[[nodiscard]] Result<> make_directory(const std::string& path,
                                      unsigned mode);  // exists: fine; parents not made

}  // namespace sallyport::host
