// SPDX-License-Identifier: Apache-2.0
#include "host/links.h"

#include <linux/if.h>
#include <linux/if_addr.h>
#include <linux/neighbour.h>
#include <linux/rtnetlink.h>
#include <netlink/addr.h>
#include <netlink/cache.h>
#include <netlink/errno.h>
#include <netlink/netlink.h>
#include <netlink/route/addr.h>
#include <netlink/route/link.h>
#include <netlink/route/link/veth.h>
#include <netlink/route/neighbour.h>
#include <netlink/route/nexthop.h>
#include <netlink/route/route.h>
#include <netlink/route/rule.h>

#include <algorithm>
#include <chrono>
#include <thread>

namespace sallyport::host {
namespace {

template <class T, void (*Put)(T*)>
struct Putter {
  void operator()(T* object) const { Put(object); }
};
using LinkPtr = std::unique_ptr<rtnl_link, Putter<rtnl_link, rtnl_link_put>>;
using AddrPtr = std::unique_ptr<nl_addr, Putter<nl_addr, nl_addr_put>>;
using RtAddrPtr = std::unique_ptr<rtnl_addr, Putter<rtnl_addr, rtnl_addr_put>>;
using RoutePtr = std::unique_ptr<rtnl_route, Putter<rtnl_route, rtnl_route_put>>;
using NeighPtr = std::unique_ptr<rtnl_neigh, Putter<rtnl_neigh, rtnl_neigh_put>>;
using RulePtr = std::unique_ptr<rtnl_rule, Putter<rtnl_rule, rtnl_rule_put>>;
using CachePtr = std::unique_ptr<nl_cache, Putter<nl_cache, nl_cache_free>>;

Result<> check(int error, const std::string& what) {
  if (error >= 0) return {};
  return fail(error == -NLE_EXIST ? Code::conflict : Code::internal,
              what + ": " + nl_geterror(error));
}

AddrPtr to_nl(const Address& address, std::optional<unsigned> prefix = {}) {
  const bool four = address.is_v4();
  const auto* raw = address.raw().data();
  AddrPtr out(nl_addr_build(four ? AF_INET : AF_INET6, four ? raw + 12 : raw, four ? 4 : 16));
  if (out && prefix) nl_addr_set_prefixlen(out.get(), static_cast<int>(*prefix));
  return out;
}

AddrPtr to_nl(const Mac& mac) { return AddrPtr(nl_addr_build(AF_LLC, mac.data(), mac.size())); }

LinkInfo info_of(rtnl_link* link) {
  const char* alias = rtnl_link_get_ifalias(link);
  return {static_cast<unsigned>(rtnl_link_get_ifindex(link)), rtnl_link_get_name(link),
          alias ? alias : "", rtnl_link_get_mtu(link), rtnl_link_get_operstate(link) == IF_OPER_UP};
}

Result<> change(nl_sock* socket, unsigned index, const std::string& what, auto&& set) {
  const LinkPtr now(rtnl_link_alloc());
  const LinkPtr wanted(rtnl_link_alloc());
  if (!now || !wanted) return fail(Code::unavailable, what + ": out of memory");
  rtnl_link_set_ifindex(now.get(), static_cast<int>(index));
  set(wanted.get());
  return check(rtnl_link_change(socket, now.get(), wanted.get(), 0), what);
}

}  // namespace

void Links::Close::operator()(nl_sock* socket) const { nl_socket_free(socket); }

Result<Links> Links::open() {
  Links links(nl_socket_alloc());
  if (!links.socket_) return fail(Code::unavailable, "rtnetlink: out of memory");
  if (auto ok = check(nl_connect(links.socket_.get(), NETLINK_ROUTE), "rtnetlink"); !ok)
    return std::unexpected(ok.error());
  return links;
}

Result<> Links::add_veth(const VethEnd& here, const VethEnd& peer, const Fd& peer_namespace,
                         unsigned mtu) {
  const LinkPtr link(rtnl_link_veth_alloc());
  if (!link) return fail(Code::unavailable, "veth: out of memory");
  const LinkPtr far(rtnl_link_veth_get_peer(link.get()));
  for (const auto& [object, end] : {std::pair{link.get(), &here}, std::pair{far.get(), &peer}}) {
    rtnl_link_set_name(object, end->name.c_str());
    rtnl_link_set_addr(object, to_nl(end->mac).get());
    rtnl_link_set_mtu(object, mtu);
  }
  rtnl_link_set_ns_fd(far.get(), peer_namespace.get());
  return check(rtnl_link_add(socket_.get(), link.get(), NLM_F_CREATE | NLM_F_EXCL),
               "make veth " + here.name + " - " + peer.name);
}

Result<LinkInfo> Links::find(const std::string& name) {
  rtnl_link* found = nullptr;
  const int error = rtnl_link_get_kernel(socket_.get(), 0, name.c_str(), &found);
  const LinkPtr link(found);
  if (error == -NLE_NODEV || error == -NLE_OBJ_NOTFOUND)
    return fail(Code::not_found, "no link " + name);
  if (error < 0) return fail(Code::internal, "find link " + name + ": " + nl_geterror(error));
  return info_of(found);
}

Result<std::vector<LinkInfo>> Links::list() {
  nl_cache* raw = nullptr;
  if (auto ok = check(rtnl_link_alloc_cache(socket_.get(), AF_UNSPEC, &raw), "list links"); !ok)
    return std::unexpected(ok.error());
  const CachePtr cache(raw);
  std::vector<LinkInfo> links;
  for (nl_object* object = nl_cache_get_first(raw); object != nullptr;
       object = nl_cache_get_next(object)) {
    links.push_back(info_of(reinterpret_cast<rtnl_link*>(object)));
  }
  return links;
}

Result<> Links::up(unsigned index) {
  return change(socket_.get(), index, "link up",
                [](rtnl_link* link) { rtnl_link_set_flags(link, IFF_UP); });
}

Result<> Links::wait_until_ready(const std::string& name, const Address& address6) {
  using std::chrono::steady_clock;
  const auto deadline = steady_clock::now() + std::chrono::seconds(2);
  const AddrPtr address = to_nl(address6);
  if (!address) return fail(Code::unavailable, "wait for link: out of memory");
  const auto receives = [&] {
    rtnl_route* found = nullptr;
    const int error = rtnl_route_lookup(socket_.get(), address.get(), &found);
    const RoutePtr route(found);
    return error == 0 && rtnl_route_get_type(found) == RTN_LOCAL;
  };
  for (;;) {
    const auto link = find(name);
    if (!link) return std::unexpected(link.error());
    if (link->running && receives()) return {};
    if (steady_clock::now() > deadline)
      return fail(Code::timed_out, "link " + name + " does not become ready");
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
}

Result<> Links::set_alias(unsigned index, const std::string& alias) {
  return change(socket_.get(), index, "link alias",
                [&](rtnl_link* link) { rtnl_link_set_ifalias(link, alias.c_str()); });
}

Result<> Links::remove(const std::string& name) {
  const LinkPtr link(rtnl_link_alloc());
  if (!link) return fail(Code::unavailable, "remove link: out of memory");
  rtnl_link_set_name(link.get(), name.c_str());
  const int error = rtnl_link_delete(socket_.get(), link.get());
  if (error == -NLE_NODEV || error == -NLE_OBJ_NOTFOUND) return {};
  return check(error, "remove link " + name);
}

Result<> Links::add_address(unsigned index, const Address& address, unsigned prefix) {
  const RtAddrPtr object(rtnl_addr_alloc());
  const AddrPtr local = to_nl(address, prefix);
  if (!object || !local) return fail(Code::unavailable, "add address: out of memory");
  rtnl_addr_set_ifindex(object.get(), static_cast<int>(index));
  if (auto ok = check(rtnl_addr_set_local(object.get(), local.get()), "add address"); !ok)
    return ok;
  if (!address.is_v4()) rtnl_addr_set_flags(object.get(), IFA_F_NODAD);
  return check(rtnl_addr_add(socket_.get(), object.get(), NLM_F_EXCL),
               "add address " + address.to_string());
}

Result<> Links::add_route(const Cidr& to, unsigned index, const std::optional<Address>& gateway) {
  const RoutePtr route(rtnl_route_alloc());
  const AddrPtr destination = to_nl(to.first(), to.prefix());
  rtnl_nexthop* hop = rtnl_route_nh_alloc();  // owned by the route from add_nexthop on
  if (!route || !destination || hop == nullptr)
    return fail(Code::unavailable, "add route: out of memory");
  rtnl_route_nh_set_ifindex(hop, static_cast<int>(index));
  if (gateway) rtnl_route_nh_set_gateway(hop, to_nl(*gateway).get());
  rtnl_route_set_family(route.get(), to.is_v4() ? AF_INET : AF_INET6);
  rtnl_route_set_dst(route.get(), destination.get());
  rtnl_route_set_table(route.get(), RT_TABLE_MAIN);
  rtnl_route_set_protocol(route.get(), RTPROT_STATIC);
  rtnl_route_set_scope(route.get(), gateway || !to.is_v4() ? RT_SCOPE_UNIVERSE : RT_SCOPE_LINK);
  rtnl_route_add_nexthop(route.get(), hop);
  return check(rtnl_route_add(socket_.get(), route.get(), NLM_F_EXCL),
               "add route to " + to.to_string());
}

Result<> Links::add_neighbour(unsigned index, const Address& address, const Mac& mac) {
  const NeighPtr neighbour(rtnl_neigh_alloc());
  const AddrPtr ip = to_nl(address);
  const AddrPtr lladdr = to_nl(mac);
  if (!neighbour || !ip || !lladdr) return fail(Code::unavailable, "add neighbour: out of memory");
  rtnl_neigh_set_ifindex(neighbour.get(), static_cast<int>(index));
  rtnl_neigh_set_dst(neighbour.get(), ip.get());
  rtnl_neigh_set_lladdr(neighbour.get(), lladdr.get());
  rtnl_neigh_set_state(neighbour.get(), NUD_PERMANENT);
  return check(rtnl_neigh_add(socket_.get(), neighbour.get(), NLM_F_CREATE | NLM_F_REPLACE),
               "add neighbour " + address.to_string());
}

Result<> Links::deliver_locally(std::uint32_t mark, std::uint32_t table) {
  constexpr int kLoopback = 1;
  for (const int family : {AF_INET, AF_INET6}) {
    const RulePtr rule(rtnl_rule_alloc());
    const RoutePtr route(rtnl_route_alloc());
    rtnl_nexthop* hop = rtnl_route_nh_alloc();
    nl_addr* everything = nullptr;
    if (!rule || !route || hop == nullptr || nl_addr_parse("default", family, &everything) < 0) {
      return fail(Code::unavailable, "tproxy route: out of memory");
    }
    const AddrPtr destination(everything);
    rtnl_rule_set_family(rule.get(), family);
    rtnl_rule_set_mark(rule.get(), mark);
    rtnl_rule_set_mask(rule.get(), 0xffffffff);
    rtnl_rule_set_table(rule.get(), table);
    rtnl_rule_set_action(rule.get(), RTN_UNICAST);  // FR_ACT_TO_TBL
    if (auto ok = check(rtnl_rule_add(socket_.get(), rule.get(), NLM_F_EXCL), "tproxy rule"); !ok)
      return ok;

    rtnl_route_nh_set_ifindex(hop, kLoopback);
    rtnl_route_set_family(route.get(), static_cast<std::uint8_t>(family));
    rtnl_route_set_dst(route.get(), destination.get());
    rtnl_route_set_table(route.get(), table);
    rtnl_route_set_type(route.get(), RTN_LOCAL);
    rtnl_route_set_scope(route.get(), family == AF_INET ? RT_SCOPE_HOST : RT_SCOPE_UNIVERSE);
    rtnl_route_set_protocol(route.get(), RTPROT_STATIC);
    rtnl_route_add_nexthop(route.get(), hop);
    if (auto ok = check(rtnl_route_add(socket_.get(), route.get(), NLM_F_EXCL), "tproxy route");
        !ok)
      return ok;
  }
  return {};
}

std::optional<unsigned> Links::default_route_mtu() {
  nl_cache* raw = nullptr;
  if (rtnl_route_alloc_cache(socket_.get(), AF_UNSPEC, 0, &raw) < 0) return {};
  const CachePtr routes(raw);
  const auto links = list();
  if (!links) return {};
  std::optional<unsigned> smallest;
  for (nl_object* object = nl_cache_get_first(raw); object != nullptr;
       object = nl_cache_get_next(object)) {
    auto* route = reinterpret_cast<rtnl_route*>(object);
    if (rtnl_route_get_table(route) != RT_TABLE_MAIN || rtnl_route_get_type(route) != RTN_UNICAST)
      continue;
    if (nl_addr_get_prefixlen(rtnl_route_get_dst(route)) != 0) continue;
    for (int i = 0; i < rtnl_route_get_nnexthops(route); ++i) {
      const auto index =
          static_cast<unsigned>(rtnl_route_nh_get_ifindex(rtnl_route_nexthop_n(route, i)));
      const auto link = std::ranges::find(*links, index, &LinkInfo::index);
      if (link != links->end()) smallest = std::min(smallest.value_or(link->mtu), link->mtu);
    }
  }
  return smallest;
}

}  // namespace sallyport::host
