// SPDX-License-Identifier: Apache-2.0
// Writes the config.json of one sandbox: a pure function of what is to run and of what this machine
// has.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/address.h"
#include "base/json.h"
#include "sandbox/driver.h"

namespace sallyport::driver {

// Ids 0 to 65535 inside are kUidBase + slot*65536 and following outside: nobody there.
inline constexpr std::uint32_t kUidBase = 0x10000000;
inline constexpr std::uint32_t kUidCount = 65536;
inline constexpr unsigned kMaxSlot =
    (1900000000U - kUidBase) / kUidCount - 1;  // below the workers' uids

[[nodiscard]] inline std::uint32_t first_uid(unsigned slot) { return kUidBase + slot * kUidCount; }

// What the machine can do; read once by oci.cc.
struct OciMachine {
  unsigned cpus = 1;
  bool cgroup2 = false;      // unified hierarchy: the container may manage cgroups below its own
  bool limits_swap = false;  // the kernel accounts swap
  bool limits_cpuset = false;
  std::uint64_t max_open_files = 1024;  // our own hard limit: it cannot be raised for others
  std::string tun =
      {};  // device nodes to bind, with rights for everybody; empty: not to be had here
  std::string fuse = {};
};

struct OciSpec {
  std::string hostname;
  std::string root;    // the mounted root file system
  std::string agent;   // the agent's binary on the host
  std::string cgroup;  // path below the hierarchies
  unsigned slot = 0;
  sandbox::Resources resources;
  std::vector<Address> resolvers;
};

[[nodiscard]] json::object oci_config(const OciSpec& spec, const OciMachine& machine);

}  // namespace sallyport::driver
