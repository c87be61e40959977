// SPDX-License-Identifier: Apache-2.0
// The network of one sandbox on the host side: router namespace, links, addresses, nftables,
// listeners. All privileged network work of the daemon passes this door. Layout (ARCHITECTURE.md
// has the picture):
//
//   guest netns  eth0 --veth-- sp-guest [router netns sp-<id>] sp-up --veth-- spu<slot> [host
//   netns]
//
// Addresses come from the pools by slot: v4 pool + slot*8: .1 router and .2 guest (/30), .5 host
// and .6 router (/30); v6 ULA pool: one /64 for the guest link (::1 router, ::2 guest), one for the
// uplink. Single masquerade on the host. Functions block; errors name the step. "host" means the
// network namespace the daemon runs in.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "base/address.h"
#include "base/fd.h"
#include "base/result.h"

namespace sallyport::host {

struct NodeNetwork {
  Cidr pool4;  // e.g. 10.209.0.0/16
  Cidr pool6;  // ULA /48
  std::vector<Address>
      resolvers;  // the only boundary-closed addresses a worker may talk to (port 53)
  // What no worker may dial, for the worker-uid output filter: the boundary as it would be with
  // every attachable network attached, since the filter knows workers, not sandboxes. The pools are
  // added here.
  std::vector<Cidr> refused;
  std::uint32_t worker_uid_first = 0;  // uids of workers: [first, last]
  std::uint32_t worker_uid_last = 0;
};

struct SandboxNetwork {
  std::string id;  // [a-z0-9_]{1,64}
  unsigned slot = 0;
};

struct SandboxAddresses {
  Address router4, guest4, router6,
      guest6;  // guest link; the router addresses are the guest's gateway and resolver
  Address host_up4, router_up4, host_up6, router_up6;
  unsigned guest_prefix4 = 30, guest_prefix6 = 64;
  std::array<std::uint8_t, 6> guest_mac{};
};
[[nodiscard]] SandboxAddresses addresses_of(const NodeNetwork& node, unsigned slot);
[[nodiscard]] unsigned slot_count(const NodeNetwork& node);

// The address half of a policy, as nftables enforces it (D-09, D-18). The lists may overlap.
struct AddressPolicy {
  bool forward_all = false;   // allow-all: everything inside the boundary is forwarded
  std::vector<Cidr> allowed;  // forwarded by the kernel, any protocol
  std::vector<Cidr> denied;   // win over allowed
  std::vector<Cidr> refused;  // this sandbox's boundary (Boundary::refused()), wins over everything
};

// Once at daemon start: forwarding sysctls, host table `sallyport` (masquerade, nothing from a
// sandbox to the host itself or to another sandbox, worker-uid output filter). Replaces what a
// former daemon left.
[[nodiscard]] Result<> setup_node(const NodeNetwork& node);

// Makes the router namespace, uplink and full ruleset, deny-all, all interception in place. After
// this the guest link can be attached at any time without a window.
[[nodiscard]] Result<> create_router(const NodeNetwork& node, const SandboxNetwork& sandbox);
// Makes the guest link and moves its far end into the network namespace of `pid` as eth0, with
// addresses, routes and lo up. A former guest link is removed first, so a sandbox may be started
// again behind the same router.
[[nodiscard]] Result<> attach_guest(const NodeNetwork& node, const SandboxNetwork& sandbox,
                                    int pid);
// One nft transaction; then conntrack entries of kernel-forwarded flows that the new policy denies
// are deleted and the guest's end of their TCP connections is made to notice. An error before the
// transaction took effect leaves the old policy as it was.
struct Applied {
  unsigned kept = 0;  // kernel-forwarded flows alive after the change
  unsigned cut = 0;
};
[[nodiscard]] Result<Applied> apply(const NodeNetwork& node, const SandboxNetwork& sandbox,
                                    const AddressPolicy& policy);
// Idempotent; succeeds on any half-made state.
[[nodiscard]] Result<> destroy(const NodeNetwork& node, const SandboxNetwork& sandbox);
// Ids of sandboxes of this node of which a namespace or link is left (those of a daemon in another
// namespace are not ours). destroy() with such an id finds its link whatever slot is given.
[[nodiscard]] Result<std::vector<std::string>> leftovers();

// The descriptors of firewall/control.h InheritedFd kTcp4..kConntrack, opened inside the router
// namespace, in that order.
[[nodiscard]] Result<std::vector<Fd>> open_worker_sockets(const NodeNetwork& node,
                                                          const SandboxNetwork& sandbox);

}  // namespace sallyport::host
