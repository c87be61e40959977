// SPDX-License-Identifier: Apache-2.0
// The firewall's decisions as pure functions. Access and handling are two answers (FW-027, FW-028):
// which rules a domain carries never changes whether it may be reached. The last line of every
// decision is deny (I5). Order (D-18): boundary, denied ranges, allowed ranges, domains, else deny.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/address.h"
#include "base/range_set.h"
#include "policy/policy.h"

namespace sallyport::policy {

// What the operator's node closes (I7, D-16), made by the daemon from its configuration and handed
// to both the worker and nftables. An address is inside the sandbox's world if it is globally
// routable and not closed, or opened by the operator, or in a network attached to this sandbox.
// Addresses that carry an IPv4 address are judged by both. Never admitted, whatever the
// operator opens: loopback, "this network", multicast, and the IPv6 ranges whose IPv4 part cannot
// be judged by prefix (IPv4-compatible, Teredo).
class Boundary {
 public:
  Boundary() : Boundary({}, {}, {}) {}  // globally routable only
  // closed: extra ranges of the operator and the host's own addresses, always win. opened:
  // operator's exceptions to "globally routable only". attached: ranges of the networks attached to
  // this sandbox.
  Boundary(std::vector<Cidr> closed, std::vector<Cidr> opened, const std::vector<Cidr>& attached);

  [[nodiscard]] bool admits(const Address& address) const;
  // Every range a sandbox must not reach, as disjoint prefixes, for nftables. Equals !admits()
  // address for address.
  [[nodiscard]] std::vector<Cidr> refused() const;

 private:
  RangeSet closed_;  // includes what is never admitted
  RangeSet opened_;  // includes attached
};

enum class Access { allow, deny };

// Why. The names are the reason codes of the egress log (docs/egress-log.md); add at the end, never
// rename.
enum class Reason {
  allow_all,
  allowed_range,
  allowed_domain,
  dns_open,
  deny_all,
  boundary,
  denied_range,
  name_not_allowed,
  no_server_name,
  not_tls,
  address_not_allowed,
  protocol_not_allowed,
};
[[nodiscard]] std::string_view to_string(Reason reason);  // "name_not_allowed"

enum class Protocol { tls, postgres, other };

// A TCP connection as far as it is known. `name` is set only if a well-formed host name (D-03) was
// read.
struct Flow {
  Protocol protocol = Protocol::other;
  std::optional<std::string> name;
  Endpoint destination;  // the address the guest chose
};

struct Decision {
  Access access = Access::deny;
  Reason reason = Reason::deny_all;
  // The entry that decided, as the user wrote it: a domain pattern or a CIDR. Empty when none did.
  std::string entry{};
  // Dial the guest's own destination (allow-all, ranges, catch-all without a name), or resolve
  // `name` (I2).
  bool by_address = false;
  // The winning domain entry, for its rules; null when access was not by domain, when no name was
  // read (FW-106) and over Postgres (D-19). Borrowed from the policy.
  const DomainEntry* domain = nullptr;
  // The domain has rules that cannot apply here: Postgres, or `*` without a name. For the log.
  bool rules_ignored = false;
};

[[nodiscard]] Decision decide(const Policy& policy, const Boundary& boundary, const Flow& flow);

// The last step of decide(): what the domains say when no range decides. Where the address is not
// known yet.
[[nodiscard]] Decision decide_by_name(const Policy& policy, Protocol protocol,
                                      const std::optional<std::string>& name);

// May this address be dialled on behalf of an admitted name (I2, FW-024)? deny carries boundary or
// denied_range.
[[nodiscard]] Decision decide_dial(const Policy& policy, const Boundary& boundary,
                                   const Address& address);

// May this name be looked up (FW-071 to FW-073, D-04, D-17)? `name` in presentation form without
// trailing dot.
[[nodiscard]] Decision decide_dns(const Policy& policy, std::string_view name);

// May a packet to this address pass without a name: what nftables enforces for UDP, ICMP and the
// rest, and whether TCP to it is forwarded by the kernel (D-09, FW-022, FW-186).
[[nodiscard]] Decision decide_address(const Policy& policy, const Boundary& boundary,
                                      const Address& address);

// Handling: the first rule of the domain that matches (FW-152), or null: the request goes on
// unchanged (FW-104).
[[nodiscard]] const Rule* choose_rule(const DomainEntry& domain, const RequestView& request);

}  // namespace sallyport::policy
