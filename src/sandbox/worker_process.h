// SPDX-License-Identifier: Apache-2.0
// Starts real firewall workers: fork, an own uid, limits, a cgroup, the inherited descriptors at
// the numbers that firewall/control.h names and nothing else, exec. The worker gives up the rest
// itself (seccomp, namespaces). Workers outlive the daemon on purpose; adopt() finds them again.
#pragma once

#include <memory>
#include <string>

#include "sandbox/loop.h"
#include "sandbox/worker.h"

namespace sallyport::sandbox {

struct WorkerProgram {
  std::string path;        // of sandbox-firewall
  unsigned uid_first = 0;  // the range of worker uids, for kill_strays
  unsigned uid_last = 0;
  std::uint64_t memory_bytes = 512ULL << 20;  // of its cgroup
  std::uint64_t open_files = 20'000;
};

[[nodiscard]] std::unique_ptr<WorkerLauncher> worker_processes(Loop& loop, WorkerProgram program);

}  // namespace sallyport::sandbox
