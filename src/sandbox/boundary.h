// SPDX-License-Identifier: Apache-2.0
// The operator's boundary (I7, D-16) as the node's configuration and the host's own addresses make
// it, and the address half of a policy as nftables gets it. One place, so that the worker and the
// kernel are told the same.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/address.h"
#include "base/json.h"
#include "base/result.h"
#include "host/network.h"
#include "policy/decide.h"
#include "policy/policy.h"

namespace sallyport::sandbox {

struct BoundaryLists {
  std::vector<Cidr> closed;    // always wins
  std::vector<Cidr> opened;    // exceptions to "globally routable only"
  std::vector<Cidr> attached;  // of this sandbox

  [[nodiscard]] policy::Boundary boundary() const { return {closed, opened, attached}; }
  [[nodiscard]] json::object to_json() const;
};

struct NodeBoundary {
  std::vector<Cidr> closed;
  std::vector<Cidr> opened;
  std::map<std::string, std::vector<Cidr>> networks;  // attachable, by name
};

// Code::invalid when there is no such network; the message names those there are.
[[nodiscard]] Result<BoundaryLists> boundary_for(const NodeBoundary& node,
                                                 const std::optional<std::string>& network_id);

// Every address of every interface of this network namespace, as /32 and /128.
[[nodiscard]] Result<std::vector<Cidr>> own_addresses();

[[nodiscard]] host::AddressPolicy address_policy(const policy::Policy& policy,
                                                 const BoundaryLists& boundary);

}  // namespace sallyport::sandbox
