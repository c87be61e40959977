// SPDX-License-Identifier: Apache-2.0
#include "sandbox/network.h"

namespace sallyport::sandbox {
namespace {

class HostNetwork : public Network {
 public:
  explicit HostNetwork(host::NodeNetwork node) : node_(std::move(node)) {}
  Result<> setup_node() override { return host::setup_node(node_); }
  unsigned slot_count() const override { return host::slot_count(node_); }
  host::SandboxAddresses addresses(unsigned slot) const override {
    return host::addresses_of(node_, slot);
  }
  Result<> create_router(const host::SandboxNetwork& sandbox) override {
    return host::create_router(node_, sandbox);
  }
  Result<std::vector<Fd>> open_worker_sockets(const host::SandboxNetwork& sandbox) override {
    return host::open_worker_sockets(node_, sandbox);
  }
  Result<host::Applied> apply(const host::SandboxNetwork& sandbox,
                              const host::AddressPolicy& policy) override {
    return host::apply(node_, sandbox, policy);
  }
  Result<> attach_guest(const host::SandboxNetwork& sandbox, int pid) override {
    return host::attach_guest(node_, sandbox, pid);
  }
  Result<> destroy(const host::SandboxNetwork& sandbox) override {
    return host::destroy(node_, sandbox);
  }
  Result<std::vector<std::string>> leftovers() override { return host::leftovers(); }

 private:
  host::NodeNetwork node_;
};

}  // namespace

std::unique_ptr<Network> host_network(host::NodeNetwork node) {
  return std::make_unique<HostNetwork>(std::move(node));
}

}  // namespace sallyport::sandbox
