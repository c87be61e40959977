// SPDX-License-Identifier: Apache-2.0
#include "sandbox/boundary.h"

#include <fmt/format.h>
#include <ifaddrs.h>
#include <netinet/in.h>

#include <algorithm>

namespace sallyport::sandbox {
namespace {

json::array texts(const std::vector<Cidr>& ranges) {
  json::array out;
  for (const Cidr& range : ranges) out.emplace_back(range.to_string());
  return out;
}

}  // namespace

json::object BoundaryLists::to_json() const {
  return {{"closed", texts(closed)}, {"opened", texts(opened)}, {"attached", texts(attached)}};
}

Result<BoundaryLists> boundary_for(const NodeBoundary& node,
                                   const std::optional<std::string>& network_id) {
  BoundaryLists lists{node.closed, node.opened, {}};
  if (!network_id) return lists;
  const auto found = node.networks.find(*network_id);
  if (found == node.networks.end()) {
    std::string names;
    for (const auto& [name, ranges] : node.networks) names += (names.empty() ? "" : ", ") + name;
    return fail(Code::invalid,
                fmt::format("$.networkId: no network '{}' on this node; its configuration has {}",
                            *network_id, names.empty() ? "none" : names));
  }
  lists.attached = found->second;
  return lists;
}

Result<std::vector<Cidr>> own_addresses() {
  ifaddrs* first = nullptr;
  if (::getifaddrs(&first) != 0) return fail_errno("getifaddrs");
  std::vector<Cidr> out;
  for (const ifaddrs* each = first; each != nullptr; each = each->ifa_next) {
    if (each->ifa_addr == nullptr) continue;
    const int family = each->ifa_addr->sa_family;
    if (family != AF_INET && family != AF_INET6) continue;
    const socklen_t length = family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
    const auto endpoint = Endpoint::from_sockaddr(each->ifa_addr, length);
    if (!endpoint) continue;
    if (const auto range = Cidr::make(endpoint->address, family == AF_INET ? 32 : 128))
      out.push_back(*range);
  }
  ::freeifaddrs(first);
  std::ranges::sort(out);
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

host::AddressPolicy address_policy(const policy::Policy& policy, const BoundaryLists& boundary) {
  host::AddressPolicy out;  // denies everything
  out.refused = boundary.boundary().refused();
  switch (policy.mode) {
    case policy::Mode::allow_all:
      out.forward_all = true;
      break;
    case policy::Mode::custom:
      out.allowed = policy.allowed;
      out.denied = policy.denied;
      break;
    case policy::Mode::deny_all:
      break;
  }
  return out;
}

}  // namespace sallyport::sandbox
