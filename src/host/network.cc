// SPDX-License-Identifier: Apache-2.0
// The steps that make, change and remove the network of one sandbox. Order is what keeps it safe
// (FW-008, R-096): the ruleset is loaded before forwarding is on, forwarding before a link is up,
// and the guest's link comes last of all.
#include "host/network.h"

#include <netinet/in.h>

#include <algorithm>
#include <string>

#include "host/conntrack.h"
#include "host/links.h"
#include "host/loaded.h"
#include "host/map_update.h"
#include "host/netns.h"
#include "host/nft.h"
#include "host/nudge.h"
#include "host/ruleset.h"
#include "host/sysctl.h"
#include "host/worker_sockets.h"

namespace sallyport::host {
namespace {

constexpr std::string_view kNamespacePrefix = "sp-";
constexpr std::string_view kAliasPrefix = "sallyport:";
constexpr const char* kGuestSide = "sp-guest";
constexpr const char* kUpSide = "sp-up";
constexpr std::uint32_t kTproxyTable = 100;
constexpr unsigned kLoopback = 1;

std::string namespace_of(const SandboxNetwork& sandbox) {
  return std::string(kNamespacePrefix) + sandbox.id;
}
std::string uplink_of(unsigned slot) { return "spu" + std::to_string(slot); }
std::string alias_of(const SandboxNetwork& sandbox) {
  return std::string(kAliasPrefix) + sandbox.id;
}

// Runs steps until one fails.
template <class... Steps>
Result<> in_order(Steps&&... steps) {
  Result<> result;
  (void)((result = steps()).has_value() && ...);
  return result;
}

Result<> valid(const NodeNetwork& node, const SandboxNetwork& sandbox) {
  const bool named =
      !sandbox.id.empty() && sandbox.id.size() <= 64 && std::ranges::all_of(sandbox.id, [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
      });
  if (!named) return fail(Code::invalid, "network: bad sandbox id");
  if (sandbox.slot >= slot_count(node))
    return fail(Code::unavailable,
                "network: the address pools have no slot " + std::to_string(sandbox.slot));
  return {};
}

struct Setting {
  const char* name;
  const char* value;
};

// Of a router namespace. Neighbour discovery and redirects are off where they could be used to talk
// us into something.
constexpr Setting kRouterSettings[] = {
    {"net/ipv6/conf/all/disable_ipv6", "0"},
    {"net/ipv6/conf/default/disable_ipv6", "0"},
    {"net/ipv6/conf/all/accept_ra", "0"},
    {"net/ipv6/conf/default/accept_ra", "0"},
    {"net/ipv6/conf/default/accept_dad",
     "0"},  // else the link-local address, and with it ND, comes a second late
    {"net/ipv6/conf/default/dad_transmits", "0"},
    {"net/ipv6/conf/all/accept_redirects", "0"},
    {"net/ipv6/conf/default/accept_redirects", "0"},
    {"net/ipv4/conf/all/accept_redirects", "0"},
    {"net/ipv4/conf/default/accept_redirects", "0"},
    {"net/ipv4/conf/all/secure_redirects", "0"},
    {"net/ipv4/conf/all/send_redirects", "0"},
    {"net/ipv4/conf/default/send_redirects", "0"},
    {"net/ipv4/conf/all/accept_source_route", "0"},
    {"net/ipv4/conf/default/accept_source_route", "0"},
    {"net/ipv4/conf/all/route_localnet", "0"},
    {"net/ipv4/conf/default/route_localnet", "0"},
    {"net/ipv4/conf/all/rp_filter", "0"},  // the ruleset's source check is stricter
    {"net/ipv4/conf/default/rp_filter", "0"},
    {"net/ipv4/conf/default/arp_ignore", "1"},
    {"net/netfilter/nf_conntrack_acct",
     "1"},  // bytes and times of forwarded flows for the egress log
    {"net/netfilter/nf_conntrack_timestamp", "1"},
    {"net/netfilter/nf_conntrack_events", "1"},
    {"net/netfilter/nf_conntrack_udp_timeout",
     "15"},  // a guest that asks DNS from ever new ports
    // Refusals go to our guest alone and are what its clients fall back on: no limit,
    // neither per target nor the one that all namespaces of an older kernel share. Type 0 of ICMPv6
    // does not exist; an empty mask cannot be written.
    {"net/ipv4/icmp_ratemask", "0"},
    {"net/ipv6/icmp/ratemask", "0"},
    {"net/ipv4/ip_forward", "1"},
    {"net/ipv6/conf/all/forwarding", "1"},
};

// Flows of one sandbox, so that none fills the table that all share. Kernels before 6.15 have one
// bound for all namespaces and refuse the write; then the node's own bound holds.
constexpr const char* kConntrackMax = "net/netfilter/nf_conntrack_max";
constexpr const char* kFlowsPerSandbox = "32768";

Result<> set_up_router(const NodeNetwork& node, const SandboxNetwork& sandbox, const Fd& host_ns,
                       unsigned mtu) {
  const SandboxAddresses at = addresses_of(node, sandbox.slot);
  if (auto loaded = run_nft(router_ruleset(node, sandbox.slot)); !loaded) return loaded;
  for (const auto& [name, value] : kRouterSettings) {
    if (auto written = write_sysctl(name, value); !written) return written;
  }
  (void)write_sysctl(kConntrackMax, kFlowsPerSandbox);

  auto links = Links::open();
  if (!links) return std::unexpected(links.error());
  const Mac up_mac = mac_of(LinkRole::router_up, sandbox.slot);
  const Mac host_mac = mac_of(LinkRole::host_up, sandbox.slot);
  if (auto made =
          links->add_veth({kUpSide, up_mac}, {uplink_of(sandbox.slot), host_mac}, host_ns, mtu);
      !made)
    return made;
  const auto up = links->find(kUpSide);
  if (!up) return std::unexpected(up.error());
  return in_order(
      [&] { return links->up(kLoopback); },
      [&] { return links->add_address(up->index, at.router_up4, 30); },
      [&] { return links->add_address(up->index, at.router_up6, 64); },
      [&] { return links->up(up->index); },
      [&] { return links->add_neighbour(up->index, at.host_up4, host_mac); },
      [&] { return links->add_neighbour(up->index, at.host_up6, host_mac); },
      [&] { return links->add_route(*Cidr::make(Address::v4(0), 0), up->index, at.host_up4); },
      [&] { return links->add_route(*Cidr::make(Address(), 0), up->index, at.host_up6); },
      [&] { return links->deliver_locally(kTproxyMark, kTproxyTable); });
}

Result<> set_up_host_side(const NodeNetwork& node, const SandboxNetwork& sandbox, Links& links) {
  const SandboxAddresses at = addresses_of(node, sandbox.slot);
  const std::string name = uplink_of(sandbox.slot);
  const Mac up_mac = mac_of(LinkRole::router_up, sandbox.slot);
  const auto link = links.find(name);
  if (!link) return std::unexpected(link.error());
  const auto guest4 = *Cidr::make(at.guest4, at.guest_prefix4);
  const auto guest6 = *Cidr::make(at.guest6, at.guest_prefix6);
  const std::string conf6 = "net/ipv6/conf/" + name + "/";
  return in_order([&] { return links.set_alias(link->index, alias_of(sandbox)); },
                  [&] { return write_sysctl(conf6 + "disable_ipv6", "0"); },
                  [&] { return write_sysctl(conf6 + "accept_ra", "0"); },
                  [&] { return write_sysctl(conf6 + "accept_dad", "0"); },
                  [&] { return links.add_address(link->index, at.host_up4, 30); },
                  [&] { return links.add_address(link->index, at.host_up6, 64); },
                  [&] { return links.up(link->index); },
                  [&] { return links.wait_until_ready(name, at.host_up6); },
                  [&] { return links.add_neighbour(link->index, at.router_up4, up_mac); },
                  [&] { return links.add_neighbour(link->index, at.router_up6, up_mac); },
                  [&] { return links.add_route(guest4, link->index, at.router_up4); },
                  [&] { return links.add_route(guest6, link->index, at.router_up6); });
}

Result<> wait_for_link(const char* name, const Address& address6) {
  auto links = Links::open();
  if (!links) return std::unexpected(links.error());
  return links->wait_until_ready(name, address6);
}

// The MTU of the way out: then nothing on the way from the guest has to tell anybody about a
// smaller one.
unsigned uplink_mtu(Links& links) {
  return std::clamp(links.default_route_mtu().value_or(1500), 1280U, 1500U);
}

// Names in /run/netns are the machine's, routers a node's: each carries the mark of its node, lest
// two daemons in two namespaces (the host is the one that the daemon runs in) sweep away each
// other's. On lo, as its alias, so that it comes and goes with the namespace.
Result<std::string> owner_mark() {
  const auto cookie = namespace_cookie();
  if (!cookie) return std::unexpected(cookie.error());
  return "sallyport-node:" + std::to_string(*cookie);
}

bool is_ours(const std::string& name, const std::string& mark) {
  constexpr long kOldEnough = 10;  // else another daemon may be making it just now
  if (const auto age = age_of_empty_name(name)) return *age >= kOldEnough;
  const auto ns = open_namespace(name);
  if (!ns) return false;
  const auto lo = in_namespace(*ns, []() -> Result<LinkInfo> {
    auto links = Links::open();
    if (!links) return std::unexpected(links.error());
    return links->find("lo");
  });
  return lo && lo->alias == mark;
}

Result<> make_router(const NodeNetwork& node, const SandboxNetwork& sandbox) {
  const auto host_ns = this_namespace();
  if (!host_ns) return std::unexpected(host_ns.error());
  auto links = Links::open();
  if (!links) return std::unexpected(links.error());
  const unsigned mtu = uplink_mtu(*links);
  const auto mark = owner_mark();
  if (!mark) return std::unexpected(mark.error());
  const auto router = create_namespace(namespace_of(sandbox), [&]() -> Result<> {
    auto inside = Links::open();
    if (!inside) return std::unexpected(inside.error());
    return inside->set_alias(kLoopback, *mark);
  });
  if (!router) return std::unexpected(router.error());
  auto inside = in_namespace(*router, [&] { return set_up_router(node, sandbox, *host_ns, mtu); });
  if (!inside) return context("router", inside.error());
  if (auto outside = set_up_host_side(node, sandbox, *links); !outside)
    return context("uplink", outside.error());
  return in_namespace(
      *router, [&] { return wait_for_link(kUpSide, addresses_of(node, sandbox.slot).router_up6); });
}

Result<> set_up_guest_side(const SandboxAddresses& at, const Mac& router_mac) {
  auto links = Links::open();
  if (!links) return std::unexpected(links.error());
  const auto link = links->find("eth0");
  if (!link) return std::unexpected(link.error());
  return in_order(
      [&] { return write_sysctl("net/ipv6/conf/eth0/disable_ipv6", "0"); },
      [&] { return write_sysctl("net/ipv6/conf/eth0/accept_ra", "0"); },
      [&] { return write_sysctl("net/ipv6/conf/eth0/accept_dad", "0"); },
      [&] { return write_sysctl("net/ipv6/conf/eth0/router_solicitations", "0"); },
      [&] { return links->up(kLoopback); },
      [&] { return links->add_address(link->index, at.guest4, at.guest_prefix4); },
      [&] { return links->add_address(link->index, at.guest6, at.guest_prefix6); },
      [&] { return links->up(link->index); },
      [&] { return links->wait_until_ready("eth0", at.guest6); },
      [&] { return links->add_neighbour(link->index, at.router4, router_mac); },
      [&] { return links->add_neighbour(link->index, at.router6, router_mac); },
      [&] { return links->add_route(*Cidr::make(Address::v4(0), 0), link->index, at.router4); },
      [&] { return links->add_route(*Cidr::make(Address(), 0), link->index, at.router6); });
}

Result<> set_up_guest_link(const SandboxAddresses& at, unsigned slot, const Fd& guest_ns) {
  auto links = Links::open();
  if (!links) return std::unexpected(links.error());
  const auto up = links->find(kUpSide);
  if (!up) return std::unexpected(up.error());
  const Mac router_mac = mac_of(LinkRole::router_guest, slot);
  if (auto gone = links->remove(kGuestSide); !gone) return gone;
  if (auto made =
          links->add_veth({kGuestSide, router_mac}, {"eth0", at.guest_mac}, guest_ns, up->mtu);
      !made)
    return made;
  const auto link = links->find(kGuestSide);
  if (!link) return std::unexpected(link.error());
  return in_order([&] { return links->add_address(link->index, at.router4, at.guest_prefix4); },
                  [&] { return links->add_address(link->index, at.router6, at.guest_prefix6); },
                  [&] { return links->up(link->index); },
                  [&] { return links->add_neighbour(link->index, at.guest4, at.guest_mac); },
                  [&] { return links->add_neighbour(link->index, at.guest6, at.guest_mac); });
}

// Keeps an uplink that learns its IPv6 route from advertisements: a forwarding host ignores them
// unless accept_ra is 2.
Result<> keep_router_advertisements(Links& links) {
  const auto list = links.list();
  if (!list) return std::unexpected(list.error());
  for (const LinkInfo& link : *list) {
    const std::string name = "net/ipv6/conf/" + link.name + "/accept_ra";
    if (const auto now = read_sysctl(name); now && *now == "1") (void)write_sysctl(name, "2");
  }
  return {};
}

// One per process, since the functions of network.h are free and the kernel's state that it mirrors
// is one as well.
LoadedMaps& loaded_maps() {
  static LoadedMaps maps;
  return maps;
}

// After the new map is in force. What the map no longer opens is gone from the kernel's table, so
// that not even a packet of the far end is taken for an answer; a DNS flow whose address is open
// now must not stay redirected.
Result<Applied> cut_flows(NetfilterSocket& socket, const Fd& router, const JudgementMap& map) {
  auto flows = list_flows(socket);
  if (!flows) return std::unexpected(flows.error());
  Applied applied;
  std::vector<TrackedFlow> cut, stale;
  for (TrackedFlow& flow : *flows) {
    const bool open = map.opens(flow.destination.address);
    if (flow.mark == kForwardedMark && open) {
      applied.kept += flow.live ? 1 : 0;
    } else if (flow.mark == kForwardedMark) {
      applied.cut += flow.live ? 1 : 0;
      cut.push_back(std::move(flow));
    } else if (flow.redirected && flow.protocol == IPPROTO_UDP && open) {
      stale.push_back(std::move(flow));
    }
  }
  if (auto gone = delete_flows(socket, cut); !gone) return std::unexpected(gone.error());
  if (auto gone = delete_flows(socket, stale); !gone) return std::unexpected(gone.error());
  if (applied.cut > 0) {
    (void)in_namespace(router, [&]() -> Result<> {
      nudge(cut);
      return {};
    });
  }
  return applied;
}

}  // namespace

Result<> setup_node(const NodeNetwork& node) {
  if (slot_count(node) == 0) return fail(Code::invalid, "network: the address pools are too small");
  if (auto loaded = run_nft(node_ruleset(node)); !loaded) return context("node", loaded.error());
  auto links = Links::open();
  if (!links) return std::unexpected(links.error());
  return in_order([&] { return write_sysctl("net/ipv4/ip_forward", "1"); },
                  [&] { return keep_router_advertisements(*links); },
                  [&] { return write_sysctl("net/ipv6/conf/all/forwarding", "1"); });
}

Result<> create_router(const NodeNetwork& node, const SandboxNetwork& sandbox) {
  if (auto ok = valid(node, sandbox); !ok) return ok;
  if (auto gone = destroy(node, sandbox); !gone) return gone;
  auto made = make_router(node, sandbox);
  if (made) return {};
  (void)destroy(node, sandbox);
  return context("network of " + sandbox.id, made.error());
}

Result<> attach_guest(const NodeNetwork& node, const SandboxNetwork& sandbox, int pid) {
  if (auto ok = valid(node, sandbox); !ok) return ok;
  const SandboxAddresses at = addresses_of(node, sandbox.slot);
  const auto router = open_namespace(namespace_of(sandbox));
  if (!router) return std::unexpected(router.error());
  const auto guest = namespace_of_process(pid);
  if (!guest) return std::unexpected(guest.error());
  auto ok = in_namespace(*router, [&] { return set_up_guest_link(at, sandbox.slot, *guest); });
  if (ok)
    ok = in_namespace(*guest, [&] {
      return set_up_guest_side(at, mac_of(LinkRole::router_guest, sandbox.slot));
    });
  if (ok) ok = in_namespace(*router, [&] { return wait_for_link(kGuestSide, at.router6); });
  if (!ok) return context("guest link of " + sandbox.id, ok.error());
  return {};
}

Result<Applied> apply(const NodeNetwork& node, const SandboxNetwork& sandbox,
                      const AddressPolicy& policy) {
  if (auto ok = valid(node, sandbox); !ok) return std::unexpected(ok.error());
  JudgementMap map = judge(node, policy);
  const auto router = open_namespace(namespace_of(sandbox));
  if (!router) return std::unexpected(router.error());
  auto known = loaded_maps().take(sandbox.id);
  if (!known) {
    auto socket = in_namespace(*router, [] { return NetfilterSocket::open(); });
    if (!socket) return std::unexpected(socket.error());
    known.emplace(std::move(*socket), std::nullopt);
  }
  // Most updates change names only. Then the kernel holds this very map, and where it opens nothing
  // there is no flow to count either: the walk over the table of all flows costs milliseconds.
  if (known->map && *known->map == map && !map.opens_anything()) {
    loaded_maps().put(sandbox.id, std::move(*known));
    return Applied{};
  }
  const auto changed = load_judgements(known->socket, map, known->map ? &*known->map : nullptr);
  if (!changed) return context("policy of " + sandbox.id, changed.error());
  const auto applied = cut_flows(known->socket, *router, map);
  if (!applied) return context("policy of " + sandbox.id, applied.error());
  known->map = std::move(map);
  loaded_maps().put(sandbox.id, std::move(*known));
  return applied;
}

Result<> destroy(const NodeNetwork&, const SandboxNetwork& sandbox) {
  (void)loaded_maps().take(sandbox.id);
  auto links = Links::open();
  if (!links) return std::unexpected(links.error());
  const auto list = links->list();
  if (!list) return std::unexpected(list.error());
  for (const LinkInfo& link : *list) {
    // By alias; by name only where a crash came before the alias.
    const bool ours = link.alias == alias_of(sandbox) ||
                      (link.alias.empty() && link.name == uplink_of(sandbox.slot));
    if (!ours) continue;
    if (auto gone = links->remove(link.name); !gone) return gone;
  }
  return remove_namespace(namespace_of(sandbox));
}

Result<std::vector<std::string>> leftovers() {
  auto names = namespaces_named(std::string(kNamespacePrefix));
  if (!names) return names;
  std::vector<std::string> ids;
  const auto mark = owner_mark();
  if (!mark) return std::unexpected(mark.error());
  for (const std::string& name : *names) {
    if (is_ours(name, *mark)) ids.push_back(name.substr(kNamespacePrefix.size()));
  }
  auto links = Links::open();
  if (!links) return std::unexpected(links.error());
  const auto list = links->list();
  if (!list) return std::unexpected(list.error());
  for (const LinkInfo& link : *list) {
    if (link.alias.starts_with(kAliasPrefix)) ids.push_back(link.alias.substr(kAliasPrefix.size()));
  }
  std::ranges::sort(ids);
  const auto repeated = std::ranges::unique(ids);
  ids.erase(repeated.begin(), repeated.end());
  return ids;
}

Result<std::vector<Fd>> open_worker_sockets(const NodeNetwork& node,
                                            const SandboxNetwork& sandbox) {
  if (auto ok = valid(node, sandbox); !ok) return std::unexpected(ok.error());
  const SandboxAddresses at = addresses_of(node, sandbox.slot);
  const auto router = open_namespace(namespace_of(sandbox));
  if (!router) return std::unexpected(router.error());
  auto opened =
      in_namespace(*router, [&] { return open_worker_sockets_here(at.router4, at.router6); });
  if (!opened) return context("worker sockets of " + sandbox.id, opened.error());
  return opened;
}

}  // namespace sallyport::host
