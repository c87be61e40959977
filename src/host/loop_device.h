// SPDX-License-Identifier: Apache-2.0
// A file as a block device.
#pragma once

#include <string>

#include "base/fd.h"
#include "base/result.h"

namespace sallyport::host {

// The device lives while `fd` is open or it is mounted, then frees itself (LO_FLAGS_AUTOCLEAR).
struct LoopDevice {
  std::string path;  // "/dev/loop3"
  Fd fd;
};

[[nodiscard]] Result<LoopDevice> attach_loop(const std::string& file, bool read_only);

}  // namespace sallyport::host
