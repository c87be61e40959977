// SPDX-License-Identifier: Apache-2.0
// Runs sandboxes as OCI containers by crun or runc: a user namespace of its own for each (root
// inside is nobody outside), its own network, pid, mount, ipc, uts and cgroup namespaces, a system
// call filter, and hard limits. The bundle is generated (oci_config.h); the disk is host/disk.h's;
// the network is attached between `create` and `start` (FW-008).
#pragma once

#include <memory>
#include <string>

#include "sandbox/driver.h"

namespace sallyport::driver {

struct OciOptions {
  std::string runtime =
      "auto";              // "auto", "crun", "runc" or a path; auto takes the first that runs here
  std::string agent = {};  // the static sandbox-agent; empty: beside our own executable
  std::string run_dir;     // the node's, not a sandbox's: runtime state lives in <run_dir>/oci
};

// Fails with Code::unavailable when no runtime works on this machine; the message says what was
// tried.
[[nodiscard]] Result<std::unique_ptr<sandbox::Driver>> make_oci_driver(const OciOptions& options);

}  // namespace sallyport::driver
