// SPDX-License-Identifier: Apache-2.0
// The network of sandboxes as the supervisor needs it: host/network.h behind a door, so that
// create, update, crash and sweep can be tested without root. The semantics are those of
// host/network.h; calls block.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "host/network.h"

namespace sallyport::sandbox {

class Network {
 public:
  virtual ~Network() = default;
  [[nodiscard]] virtual Result<> setup_node() = 0;
  [[nodiscard]] virtual unsigned slot_count() const = 0;
  [[nodiscard]] virtual host::SandboxAddresses addresses(unsigned slot) const = 0;
  [[nodiscard]] virtual Result<> create_router(const host::SandboxNetwork& sandbox) = 0;
  [[nodiscard]] virtual Result<std::vector<Fd>> open_worker_sockets(
      const host::SandboxNetwork& sandbox) = 0;
  [[nodiscard]] virtual Result<host::Applied> apply(const host::SandboxNetwork& sandbox,
                                                    const host::AddressPolicy& policy) = 0;
  [[nodiscard]] virtual Result<> attach_guest(const host::SandboxNetwork& sandbox, int pid) = 0;
  [[nodiscard]] virtual Result<> destroy(const host::SandboxNetwork& sandbox) = 0;
  [[nodiscard]] virtual Result<std::vector<std::string>> leftovers() = 0;
};

[[nodiscard]] std::unique_ptr<Network> host_network(host::NodeNetwork node);

}  // namespace sallyport::sandbox
