// SPDX-License-Identifier: Apache-2.0
// Which addresses the sandbox of a slot has: arithmetic on the pools.
#include <algorithm>

#include "base/check.h"
#include "host/network.h"
#include "host/ruleset.h"

namespace sallyport::host {
namespace {

Address plus4(const Cidr& pool, std::uint32_t offset) {
  return Address::v4(pool.first().v4_host_order() + offset);
}

// Host `host` of the /64 number `subnet` of the pool.
Address in_subnet6(const Cidr& pool, std::uint32_t subnet, std::uint8_t host) {
  Address::Raw raw = pool.first().raw();
  std::uint64_t high = 0;
  for (std::size_t i = 0; i < 8; ++i) high = (high << 8) | raw[i];
  high += subnet;
  for (std::size_t i = 8; i-- > 0; high >>= 8) raw[i] = static_cast<std::uint8_t>(high);
  raw[15] = host;
  return Address(raw);
}

}  // namespace

unsigned slot_count(const NodeNetwork& node) {
  if (!node.pool4.is_v4() || node.pool6.is_v4() || node.pool4.prefix() > 29 ||
      node.pool6.prefix() > 63)
    return 0;
  // The pools must be large enough; that they are not absurdly large keeps a slot within the three
  // bytes of a MAC.
  const unsigned by4 = 1U << std::min(29 - node.pool4.prefix(), 20U);
  const unsigned by6 = 1U << std::min(63 - node.pool6.prefix(), 20U);
  return std::min(by4, by6);
}

SandboxAddresses addresses_of(const NodeNetwork& node, unsigned slot) {
  CHECK(slot < slot_count(node));
  SandboxAddresses at;
  at.router4 = plus4(node.pool4, slot * 8 + 1);
  at.guest4 = plus4(node.pool4, slot * 8 + 2);
  at.host_up4 = plus4(node.pool4, slot * 8 + 5);
  at.router_up4 = plus4(node.pool4, slot * 8 + 6);
  at.router6 = in_subnet6(node.pool6, slot * 2, 1);
  at.guest6 = in_subnet6(node.pool6, slot * 2, 2);
  at.host_up6 = in_subnet6(node.pool6, slot * 2 + 1, 1);
  at.router_up6 = in_subnet6(node.pool6, slot * 2 + 1, 2);
  at.guest_mac = mac_of(LinkRole::guest, slot);
  return at;
}

}  // namespace sallyport::host
