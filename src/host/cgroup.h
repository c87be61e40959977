// SPDX-License-Identifier: Apache-2.0
// Limits and sure death for a tree of processes, on cgroup v2 and on v1 (also hybrid, where a v2
// directory without controllers gives cgroup.kill and the v1 hierarchies give the limits).
//
// Names: a firewall worker lives in /sallyport/worker-<id>; the container of a sandbox in
// /sallyport/<id>, which the OCI runtime makes itself (linux.cgroupsPath =
// container_cgroup_path(id)); ids have no '-', so the two never meet.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"

namespace sallyport::host {

struct CgroupLimits {
  double cpus = 0;  // 0: no limit
  std::uint64_t memory_bytes =
      0;  // 0: no limit; swap is refused along with it where the kernel accounts it
  std::uint64_t max_pids = 0;  // 0: no limit
};

struct CgroupStats {
  std::uint64_t cpu_ns = 0;
  std::uint64_t memory_bytes = 0;
  std::uint64_t memory_peak_bytes = 0;
  std::uint64_t pids = 0;
};

[[nodiscard]] std::string worker_cgroup_path(const std::string& id);     // "/sallyport/worker-<id>"
[[nodiscard]] std::string container_cgroup_path(const std::string& id);  // "/sallyport/<id>"

class Cgroup {
 public:
  // `path` as the two functions above give it. Makes what is missing and (re)writes the limits.
  [[nodiscard]] static Result<Cgroup> create(const std::string& path, const CgroupLimits& limits);
  // Looks at whatever exists of it; never fails for a group that does not exist (all calls then do
  // nothing).
  [[nodiscard]] static Cgroup open(const std::string& path);

  [[nodiscard]] Result<> add(pid_t pid) const;
  [[nodiscard]] std::vector<pid_t> processes() const;
  // SIGKILLs everything in it and below, waits until it is empty (at most 5 s).
  [[nodiscard]] Result<> kill() const;
  [[nodiscard]] CgroupStats stats() const;  // zero where the kernel does not say
  // kill(), then removes the directories. Idempotent.
  [[nodiscard]] Result<> destroy() const;

 private:
  explicit Cgroup(std::string path) : path_(std::move(path)) {}
  std::string path_;
};

// Names directly below /sallyport in any hierarchy: "<id>" and "worker-<id>".
[[nodiscard]] std::vector<std::string> cgroup_leftovers();

}  // namespace sallyport::host
