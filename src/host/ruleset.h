// SPDX-License-Identifier: Apache-2.0
// What nftables is told, as text in its own language, made from values alone (no sockets, no
// namespaces: see nft.h).
//
// A router namespace judges every address by one interval map per family, address -> Judgement. The
// map is computed here, disjoint and complete: boundary over denied over allowed (D-18, R-091), so
// that the kernel does one lookup per packet and a live update is one map replaced in one
// transaction; allow-all is only a map with more in it.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/range_set.h"
#include "host/network.h"

namespace sallyport::host {

// Also the packet mark while a packet is inside the router namespace. kTproxyMark is 1.
enum class Judgement : std::uint32_t { open = 2, boundary = 3, denied = 4 };

struct Judged {
  AddressRange range;
  Judgement judgement;
  auto operator<=>(const Judged&) const = default;
};

struct JudgementMap {
  std::vector<Judged> v4,
      v6;  // sorted, disjoint; what is in neither list is for the worker (TCP, DNS) or refused

  // Is traffic to this address forwarded by the kernel?
  [[nodiscard]] bool opens(const Address& address) const;
  [[nodiscard]] bool opens_anything() const;

  bool operator==(const JudgementMap&) const = default;
};

[[nodiscard]] JudgementMap judge(const NodeNetwork& node, const AddressPolicy& policy);

// The tables of a new router namespace, with nothing open. (Nothing in it is replaced: the kernel
// would wait for RCU.)
[[nodiscard]] std::string router_ruleset(const NodeNetwork& node, unsigned slot);
// The table of the node itself. Loading it again replaces it.
[[nodiscard]] std::string node_ruleset(const NodeNetwork& node);
// These three are the worker's too (firewall/control.h); a test holds the two places equal, since
// this folder knows only base.
inline constexpr int kNflogGroup = 100;
inline constexpr std::uint32_t kForwardedMark = 0x5a11;  // of conntrack entries
inline constexpr std::uint32_t kTproxyMark = 1;

inline constexpr std::uint16_t kTproxyPort = 15001;
inline constexpr std::uint16_t kDnsPort = 15053;
// Marks a packet that asks for the DNS redirect, and one that the daemon itself wrote
// (host/nudge.h).
inline constexpr std::uint32_t kDnsMark = 5;
inline constexpr std::uint32_t kNudgeMark = 6;

// Link-layer addresses are ours: locally administered, one per role and slot.
enum class LinkRole : std::uint8_t { guest = 1, router_guest = 2, router_up = 3, host_up = 4 };
[[nodiscard]] std::array<std::uint8_t, 6> mac_of(LinkRole role, unsigned slot);
[[nodiscard]] std::string to_string(const std::array<std::uint8_t, 6>& mac);
// fe80::/64 with the modified EUI-64 of the MAC, as Linux forms it by default.
[[nodiscard]] Address link_local_of(const std::array<std::uint8_t, 6>& mac);

}  // namespace sallyport::host
