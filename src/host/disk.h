// SPDX-License-Identifier: Apache-2.0
// The root file system of one sandbox: a read-only base image under a writable ext4 image of fixed
// size, joined by overlayfs.
//
//   <base_mount>     squashfs or erofs, loop-mounted once per image, shared by every sandbox that
//   uses it <dir>/base       id-mapped clone of <base_mount>         (overlay lower) <dir>/disk
//   id-mapped mount of the ext4 image       (overlay upper and work) <dir>/root       the overlay:
//   the sandbox's /
//
// Both layers are id-mapped, so files on disk carry the ids seen inside and an image may move to
// another slot. The ext4 image is only ever written through the kernel's file system; one that a
// microVM wrote as a block device must never be mounted here. Only ids of the range may create
// files below root (others, the host's uid 0 among them, get EOVERFLOW): what the node wants to put
// there is bind-mounted, or written by a process that took such an id. Every loop device clears
// itself when its mount goes (LO_FLAGS_AUTOCLEAR): a killed daemon leaks none.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"

namespace sallyport::host {

struct IdRange {
  std::uint32_t first = 0;  // host id of id 0 inside
  std::uint32_t count = 65536;
};

struct RootSpec {
  std::string base_image;  // squashfs or erofs file
  std::string base_mount;  // e.g. <run_dir>/images/<digest>; made and mounted if it is not yet
  std::string disk_image;  // e.g. <state_dir>/sandboxes/<id>/disk.ext4; made by create_disk if it
                           // does not exist
  std::uint64_t disk_bytes = 0;
  std::string template_dir;  // where create_disk keeps its templates; empty: beside the disk image
  std::string dir;           // e.g. <run_dir>/sandboxes/<id>
  std::optional<IdRange> id_range;  // absent: no id mapping
};

struct Mounted {
  std::string root;  // <dir>/root
};

// A sparse file with an empty ext4 file system, copied from a template kept beside it in
// `template_dir` (mkfs runs once per size). Written under a temporary name and renamed, so a
// half-made disk never has the final name.
[[nodiscard]] Result<> create_disk(const std::string& path, std::uint64_t bytes,
                                   const std::string& template_dir);

// Idempotent: a root that is mounted already is returned as it is. On failure nothing of it is left
// mounted.
[[nodiscard]] Result<Mounted> mount_root(const RootSpec& spec);
// Unmounts <dir>/root, disk, base (whatever of them exists) and removes the mount points; not the
// shared base mount. Succeeds on any half-made state.
[[nodiscard]] Result<> unmount_root(const std::string& dir);

// Mounts an image read-only, nosuid kept off (sudo must work inside), nodev. Safe to call from
// several threads.
[[nodiscard]] Result<> mount_base(const std::string& image, const std::string& mount_point);
[[nodiscard]] Result<> unmount_base(const std::string& mount_point);

// Mount points below `prefix`, deepest first: what a former daemon left.
[[nodiscard]] Result<std::vector<std::string>> mounts_below(const std::string& prefix);

}  // namespace sallyport::host
