// SPDX-License-Identifier: Apache-2.0
#include "host/loop_device.h"

#include <fcntl.h>
#include <linux/loop.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <cerrno>
#include <cstring>

namespace sallyport::host {
namespace {

// Where /dev is no devtmpfs, a device that the kernel made just now has no node yet.
Result<Fd> open_device(int number, const std::string& path, int flags) {
  constexpr unsigned kLoopMajor = 7;
  Fd device(open(path.c_str(), flags));
  if (!device && errno == ENOENT) {
    if (mknod(path.c_str(), S_IFBLK | 0600, makedev(kLoopMajor, static_cast<unsigned>(number))) !=
            0 &&
        errno != EEXIST) {
      return fail_errno("mknod " + path);
    }
    device = Fd(open(path.c_str(), flags));
  }
  if (!device) return fail_errno("open " + path);
  return device;
}

}  // namespace

Result<LoopDevice> attach_loop(const std::string& file, bool read_only) {
  const int flags = (read_only ? O_RDONLY : O_RDWR) | O_CLOEXEC;
  const Fd backing(open(file.c_str(), flags));
  if (!backing) return fail_errno("open " + file);
  const Fd control(open("/dev/loop-control", O_RDWR | O_CLOEXEC));
  if (!control) return fail_errno("open /dev/loop-control");
  constexpr int kRivals = 64;  // others may take the free device between the two calls
  for (int attempt = 0; attempt < kRivals; ++attempt) {
    const int number = ioctl(control.get(), LOOP_CTL_GET_FREE);
    if (number < 0) return fail_errno("find a free loop device");
    const std::string path = "/dev/loop" + std::to_string(number);
    auto device = open_device(number, path, flags);
    if (!device) return std::unexpected(device.error());
    loop_config config{};
    config.fd = static_cast<__u32>(backing.get());
    config.info.lo_flags = LO_FLAGS_AUTOCLEAR | (read_only ? LO_FLAGS_READ_ONLY : 0U);
    std::strncpy(reinterpret_cast<char*>(config.info.lo_file_name), file.c_str(), LO_NAME_SIZE - 1);
    if (ioctl(device->get(), LOOP_CONFIGURE, &config) == 0)
      return LoopDevice{path, std::move(*device)};
    if (errno != EBUSY) return fail_errno("attach " + file + " to " + path);
  }
  return fail(Code::unavailable, "no free loop device for " + file);
}

}  // namespace sallyport::host
