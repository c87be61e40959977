// SPDX-License-Identifier: Apache-2.0
// The one door to isolation. A driver turns a prepared disk and a network attachment into something
// that runs the sandbox-agent as PID 1, and back into nothing. It knows no policies, API or store.
//
// Calls block (the supervisor runs them off its event loop), may be made from any thread, one at a
// time per sandbox. Every call is safe to repeat; destroy() succeeds on whatever half-made state a
// crash left.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/address.h"
#include "base/result.h"

namespace sallyport::sandbox {

struct Resources {
  unsigned vcpus = 2;
  std::uint64_t memory_bytes = 4ULL << 30;
  std::uint64_t disk_bytes = 32ULL << 30;
  unsigned max_pids = 4096;
};

struct DriverSpec {
  std::string id;  // session id, [a-z0-9_]+, also the cgroup and runtime container name
  std::string hostname;
  std::string run_dir;    // <run_dir>/sandboxes/<id>, exists, 0700 root
  std::string state_dir;  // <state_dir>/sandboxes/<id>, holds the writable disk image
  std::string image_dir;  // <state_dir>/images/<digest>, read-only base image and its config
  unsigned slot = 0;  // unique small number while the sandbox lives: id-mapped uid range = kUidBase
                      // + slot*65536
  Resources resources;
  std::vector<Address> resolvers;  // for /etc/resolv.conf inside: the gateway addresses
                                   // (SandboxAddresses::router4, router6)
  // Called with the pid that owns the sandbox's new network namespace, after it exists and before
  // the first instruction of the agent runs: the supervisor moves the link in and brings it up
  // (FW-008, R-096).
  std::function<Result<>(int pid)> attach_network;
};

struct Running {
  int pid = 0;               // of PID 1 as the host sees it
  std::string agent_socket;  // unix socket path on the host; connect to reach the agent
};

class Driver {
 public:
  virtual ~Driver() = default;
  [[nodiscard]] virtual std::string name() const = 0;  // "oci (crun)"
  [[nodiscard]] virtual Result<Running> start(const DriverSpec& spec) = 0;
  // Is PID 1 still alive? Used after a daemon restart and by the watcher.
  [[nodiscard]] virtual bool alive(const std::string& id, int pid) = 0;
  // KILLs everything, unmounts, frees; keeps the disk image. Idempotent.
  [[nodiscard]] virtual Result<> destroy(const DriverSpec& spec) = 0;
  // Ids of sandboxes of which anything is left in the kernel or the runtime (for the sweep at
  // daemon start).
  [[nodiscard]] virtual Result<std::vector<std::string>> leftovers() = 0;
};

}  // namespace sallyport::sandbox
