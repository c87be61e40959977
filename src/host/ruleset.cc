// SPDX-License-Identifier: Apache-2.0
// The two rulesets, as a person would write them, with $names that are filled in from values.
//
// Theory of operation of the router namespace. A packet of the guest passes, in this order:
//   from_guest   (prerouting, after defragmentation and conntrack, so fragments are whole packets
//   here and cannot split
//                a header past a rule, R-093) source check; malformed; judgement by destination;
//                then one of
//                  open      -> forward chain (any protocol, DNS too), never touching the worker
//                  port 53   -> nat redirect to the worker, whatever the address (R-082, R-087)
//                  boundary or denied -> refused at once
//                  other TCP -> TPROXY to the worker
//                  the rest  -> refused at once (D-09, R-092, R-093)
//   forward      judges again in both directions: a packet of the guest must carry the mark `open`
//   set for this very packet;
//                a packet from outside must answer a flow whose original destination is open now.
//                There is no blanket "established": a new map cuts old flows with the next packet
//                (D-15).
//   input        only what TPROXY or the redirect delivered, and neighbour discovery. So the
//   listeners cannot be
//                reached by dialling them.
//   output       only towards the guest: nothing that the worker writes on a socket of this
//   namespace leaves by the uplink.
// Where the worker is gone TPROXY finds no listener and the packet falls through to a refusal (I5,
// R-097).
#include "host/ruleset.h"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <iterator>
#include <map>

#include "base/check.h"

namespace sallyport::host {
namespace {

constexpr std::string_view kRouterTables = R"nft(

# The neighbour table is one for the whole kernel: a guest that claims many addresses must not fill it.
table arp sallyport {
  chain input {
    type filter hook input priority filter; policy drop;
    iifname "sp-guest" arp htype 1 arp ptype ip arp hlen 6 arp plen 4 arp saddr ether $guest_mac arp saddr ip $guest4 accept
  }
}

table inet sallyport {
  map judge4 { type ipv4_addr : mark; flags interval; elements = { $judgements4 }; }
  map judge6 { type ipv6_addr : mark; flags interval; elements = { $judgements6 }; }

  chain refuse {
    meta l4proto tcp reject with tcp reset
    reject with icmpx type admin-prohibited
  }
  chain boundary {
    limit rate 50/second burst 100 packets log prefix "sp:boundary" group $group snaplen 128
    goto refuse
  }
  chain denied {
    limit rate 50/second burst 100 packets log prefix "sp:denied_range" group $group snaplen 128
    goto refuse
  }
  chain other {
    limit rate 50/second burst 100 packets log prefix "sp:protocol_not_allowed" group $group snaplen 128
    goto refuse
  }
  chain no_worker {
    limit rate 50/second burst 100 packets log prefix "sp:no_worker" group $group snaplen 128
    goto refuse
  }
  # An answer would go to whoever was named as the source: silence.
  chain spoofed {
    limit rate 10/second burst 20 packets log prefix "sp:spoofed_source" group $group snaplen 128
    drop
  }
  chain malformed {
    limit rate 10/second burst 20 packets log prefix "sp:malformed" group $group snaplen 128
    drop
  }

  chain from_guest {
    meta mark set 0
    ether saddr != $guest_mac goto spoofed
    # What every kernel says on a link by itself, and what this link has no use for.
    icmpv6 type { nd-router-solicit, mld-listener-query, mld-listener-report, mld-listener-done, mld2-listener-report } drop
    ip6 saddr $guest_link6 ip6 hoplimit 255 icmpv6 type { nd-neighbor-solicit, nd-neighbor-advert } accept
    ip saddr != $guest4 goto spoofed
    ip6 saddr != $guest6 goto spoofed
    # IPv4 options (source routes among them) and IPv6 extension headers other than Fragment, which is gone by now.
    ip hdrlength != 5 goto malformed
    ip6 nexthdr { 0, 43, 44, 51, 59, 60, 135, 139, 140 } goto malformed
    ip6 hoplimit 255 icmpv6 type { nd-neighbor-solicit, nd-neighbor-advert } accept
    icmpv6 type { nd-router-advert, nd-redirect, nd-neighbor-solicit, nd-neighbor-advert } goto malformed

    meta mark set ip daddr map @judge4
    meta mark set ip6 daddr map @judge6
    # A flow that the worker holds stays with it when its address becomes open (D-15). Flows that the kernel forwards
    # are told apart by their conntrack mark first, which spares them the socket lookup.
    meta mark $open ct mark $forwarded accept
    meta l4proto tcp meta mark { 0, $open } socket transparent 1 meta mark set $tproxy accept
    meta mark $open accept
    meta l4proto { tcp, udp } th dport 53 meta mark set $dns accept
    meta mark $boundary goto boundary
    meta mark $denied goto denied
    meta nfproto ipv4 meta l4proto tcp meta mark set $tproxy tproxy ip to 127.0.0.1:$tproxy_port accept
    meta nfproto ipv6 meta l4proto tcp meta mark set $tproxy tproxy ip6 to [::1]:$tproxy_port accept
    meta l4proto tcp goto no_worker
    # An ICMP error about a flow of the worker's, or about one just cut.
    meta l4proto { icmp, icmpv6 } ct state related,invalid drop
    goto other
  }
  chain prerouting {
    type filter hook prerouting priority mangle; policy drop;
    iifname "sp-guest" goto from_guest
    iifname "sp-up" meta mark set 0 accept
  }
  chain to_dns {
    type nat hook prerouting priority dstnat; policy accept;
    iifname "sp-guest" meta mark $dns meta nfproto ipv4 meta l4proto { tcp, udp } dnat ip to $router4:$dns_port
    iifname "sp-guest" meta mark $dns meta nfproto ipv6 meta l4proto { tcp, udp } dnat ip6 to [$router6]:$dns_port
  }
  chain forward {
    type filter hook forward priority filter; policy drop;
    iifname "sp-up" oifname "sp-guest" ct direction reply ct state established,related goto answers
    iifname "sp-guest" oifname "sp-up" meta mark $open goto requests
    # A packet to port 53 whose flow is older than the redirect, for one.
    iifname "sp-guest" goto refuse
  }
  chain requests {
    ct state invalid drop
    tcp flags syn / syn,rst tcp option maxseg size set rt mtu
    ct mark != $forwarded ct mark set $forwarded
    accept
  }
  # Judged by the original destination of the flow, so that an ICMP error of a router on the way is judged by it as well.
  chain answers {
    meta mark set ct original ip daddr map @judge4
    meta mark set ct original ip6 daddr map @judge6
    meta mark != $open drop
    tcp flags syn / syn,rst tcp option maxseg size set rt mtu
    accept
  }
  chain input {
    type filter hook input priority filter; policy drop;
    iifname "sp-guest" meta l4proto tcp meta mark $tproxy accept
    iifname "sp-guest" meta l4proto { tcp, udp } ct status dnat th dport $dns_port accept
    iifname "sp-guest" ip6 hoplimit 255 icmpv6 type { nd-neighbor-solicit, nd-neighbor-advert } accept
  }
  chain untracked {
    type filter hook output priority raw; policy accept;
    meta mark $nudge notrack
  }
  chain output {
    type filter hook output priority filter; policy drop;
    oifname "sp-guest" ip daddr $guest4 accept
    oifname "sp-guest" ip6 daddr { $guest6, $guest_link6 } accept
  }
}
)nft";

constexpr std::string_view kNodeTable = R"nft(
table inet sallyport
delete table inet sallyport
table inet sallyport {
  set resolvers4 { type ipv4_addr; }
  set resolvers6 { type ipv6_addr; }
  set refused4 { type ipv4_addr; flags interval; }
  set refused6 { type ipv6_addr; flags interval; }

  chain refuse {
    meta l4proto tcp reject with tcp reset
    reject with icmpx type admin-prohibited
  }
  # A router namespace sends from its own addresses only.
  chain prerouting {
    type filter hook prerouting priority mangle; policy accept;
    iifname "spu*" fib saddr . iif oif missing drop
    # No route (IPv6 on many nodes): the ICMP error of the kernel would come while the guest's connect() still holds its
    # socket, be lost, and cost a second (R-024). A reset is not lost.
    iifname "spu*" tcp flags & (syn | ack) == syn fib daddr oif missing reject with tcp reset
  }
  chain input {
    type filter hook input priority filter; policy accept;
    iifname "spu*" goto refuse
  }
  chain forward {
    type filter hook forward priority filter; policy accept;
    iifname "spu*" goto from_sandbox
    oifname "spu*" ct direction reply ct state established,related accept
    oifname "spu*" drop
  }
  chain from_sandbox {
    oifname "spu*" goto refuse
    ip saddr != $pool4 drop
    ip6 saddr != $pool6 drop
    ct state invalid drop
    tcp flags syn / syn,rst tcp option maxseg size set rt mtu
  }
  chain postrouting {
    type nat hook postrouting priority srcnat; policy accept;
    iifname "spu*" ip saddr $pool4 masquerade
    iifname "spu*" ip6 saddr $pool6 masquerade
  }
  # Defence in depth: a worker that was taken over cannot reach the node, another sandbox or what the boundary closes.
  chain output {
    type filter hook output priority filter; policy accept;
    meta skuid $workers goto from_worker
  }
  chain from_worker {
    meta l4proto { tcp, udp } th dport 53 ip daddr @resolvers4 accept
    meta l4proto { tcp, udp } th dport 53 ip6 daddr @resolvers6 accept
    fib daddr type != unicast goto refuse
    ip daddr @refused4 goto refuse
    ip6 daddr @refused6 goto refuse
    meta l4proto != { tcp, udp } goto refuse
  }
}
)nft";

using Values = std::map<std::string, std::string, std::less<>>;

// Replaces each $name. (nft's own `define` refuses many names and many places.)
std::string fill(std::string_view text, const Values& values) {
  std::string out;
  while (!text.empty()) {
    const auto dollar = std::min(text.find('$'), text.size());
    out += text.substr(0, dollar);
    text.remove_prefix(dollar);
    if (text.empty()) break;
    const auto end = text.find_first_not_of("abcdefghijklmnopqrstuvwxyz_0123456789", 1);
    const auto value = values.find(text.substr(1, end - 1));
    CHECK(value != values.end());
    out += value->second;
    text.remove_prefix(end);
  }
  return out;
}

std::string number(Judgement judgement) {
  return std::to_string(static_cast<std::uint32_t>(judgement));
}

std::string text_of(const Address& address, bool four) {
  char text[INET6_ADDRSTRLEN];
  const auto* raw = address.raw().data();
  inet_ntop(four ? AF_INET : AF_INET6, four ? raw + 12 : raw, text, sizeof text);
  return text;
}

void append_range(std::string& out, const AddressRange& range, bool four) {
  out += text_of(range.first, four);
  if (range.last != range.first) {
    out += '-';
    out += text_of(range.last, four);
  }
}

void append_ranges(std::string& out, std::string_view set, const std::vector<AddressRange>& ranges,
                   bool four) {
  if (ranges.empty()) return;
  out += fmt::format("add element inet sallyport {} {{ ", set);
  for (const auto& range : ranges) {
    append_range(out, range, four);
    out += ", ";
  }
  out += "}\n";
}

std::string elements_of(const std::vector<Judged>& entries, bool four) {
  std::string out;
  for (const auto& entry : entries) {
    append_range(out, entry.range, four);
    fmt::format_to(std::back_inserter(out), " : {}, ", static_cast<std::uint32_t>(entry.judgement));
  }
  return out;
}

}  // namespace

std::array<std::uint8_t, 6> mac_of(LinkRole role, unsigned slot) {
  return {0x02,
          0x5a,
          static_cast<std::uint8_t>(role),
          static_cast<std::uint8_t>(slot >> 16),
          static_cast<std::uint8_t>(slot >> 8),
          static_cast<std::uint8_t>(slot)};
}

std::string to_string(const std::array<std::uint8_t, 6>& mac) {
  return fmt::format("{:02x}:{:02x}:{:02x}:{:02x}:{:02x}:{:02x}", mac[0], mac[1], mac[2], mac[3],
                     mac[4], mac[5]);
}

Address link_local_of(const std::array<std::uint8_t, 6>& mac) {
  return Address({0xfe, 0x80, 0, 0, 0, 0, 0, 0, static_cast<std::uint8_t>(mac[0] ^ 0x02), mac[1],
                  mac[2], 0xff, 0xfe, mac[3], mac[4], mac[5]});
}

std::string router_ruleset(const NodeNetwork& node, unsigned slot) {
  const JudgementMap map = judge(node, {});
  const SandboxAddresses at = addresses_of(node, slot);
  return fill(kRouterTables, {{"guest_mac", to_string(at.guest_mac)},
                              {"guest4", at.guest4.to_string()},
                              {"guest6", at.guest6.to_string()},
                              {"guest_link6", link_local_of(at.guest_mac).to_string()},
                              {"router4", at.router4.to_string()},
                              {"router6", at.router6.to_string()},
                              {"group", std::to_string(kNflogGroup)},
                              {"forwarded", std::to_string(kForwardedMark)},
                              {"tproxy", std::to_string(kTproxyMark)},
                              {"open", number(Judgement::open)},
                              {"boundary", number(Judgement::boundary)},
                              {"denied", number(Judgement::denied)},
                              {"dns", std::to_string(kDnsMark)},
                              {"nudge", std::to_string(kNudgeMark)},
                              {"tproxy_port", std::to_string(kTproxyPort)},
                              {"dns_port", std::to_string(kDnsPort)},
                              {"judgements4", elements_of(map.v4, true)},
                              {"judgements6", elements_of(map.v6, false)}});
}

std::string node_ruleset(const NodeNetwork& node) {
  std::string out = fill(
      kNodeTable, {{"pool4", node.pool4.to_string()},
                   {"pool6", node.pool6.to_string()},
                   {"workers", fmt::format("{}-{}", node.worker_uid_first, node.worker_uid_last)}});
  std::vector<Cidr> refused = node.refused;
  refused.push_back(node.pool4);
  refused.push_back(node.pool6);
  const RangeSet set(refused);
  append_ranges(out, "refused4", set.v4(), true);
  append_ranges(out, "refused6", set.v6(), false);
  for (const Address& address : node.resolvers) {
    out += fmt::format("add element inet sallyport {} {{ {} }}\n",
                       address.is_v4() ? "resolvers4" : "resolvers6", address.to_string());
  }
  return out;
}

}  // namespace sallyport::host
