// SPDX-License-Identifier: Apache-2.0
// Runs another program to its end: a container runtime, mmdebstrap, mkfs. It dies with the calling
// thread, so that a killed daemon leaves none behind at work, and it has a time limit.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace sallyport::driver {

struct Program {
  std::vector<std::string> argv;  // argv[0] is looked up in PATH
  std::chrono::milliseconds limit{60'000};
  // Gets stdout and stderr line by line. Without it both are /dev/null: for programs whose children
  // outlive them.
  std::function<void(std::string_view)> line = {};
  int pass_fd = -1;  // is descriptor 3 there
  // Runs in a mount namespace of its own from which /sys/fs/cgroup/unified is gone (oci.cc says
  // why).
  bool without_hybrid_cgroup = false;
};

// Fails if it could not be run, ran too long, or ended with anything but 0; the message holds its
// last lines if `line` is set.
[[nodiscard]] Result<> run_program(const Program& program);

}  // namespace sallyport::driver
