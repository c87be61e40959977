// SPDX-License-Identifier: Apache-2.0
#include "driver/quiet_socket.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/socket.h>

#include <cerrno>
#include <thread>

namespace sallyport::driver {
namespace {

Fd make_empty_namespace() {
  Fd made;
  std::thread([&made] {
    if (::unshare(CLONE_NEWNET) == 0)
      made.reset(::open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC));
  }).join();
  return made;
}

}  // namespace

Result<Fd> quiet_unix_socket() {
  static const Fd empty = make_empty_namespace();
  Fd socket;
  int error = 0;
  const auto make = [&socket, &error] {
    socket.reset(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    error = errno;
  };
  if (empty) {
    // A thread of its own: it never has to find back.
    std::thread([&make, &error] {
      if (::setns(empty.get(), CLONE_NEWNET) == 0)
        make();
      else
        error = errno;
    }).join();
  } else {
    make();
  }
  if (!socket) return fail_errno("socket for the agent", error);
  return socket;
}

}  // namespace sallyport::driver
