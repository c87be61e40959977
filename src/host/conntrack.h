// SPDX-License-Identifier: Apache-2.0
// The kernel's table of flows in the network namespace of a socket.
#pragma once

#include <cstdint>
#include <vector>

#include "base/address.h"
#include "base/result.h"
#include "host/netfilter_socket.h"

namespace sallyport::host {

struct TrackedFlow {
  std::uint8_t protocol = 0;
  Endpoint source,
      destination;  // as the first packet had them; ports 0 where the protocol has none
  std::uint32_t mark = 0;
  bool redirected = false;  // its destination was rewritten (the DNS redirect)
  bool live = true;         // a TCP flow that neither end has finished; everything else is live
  std::vector<std::uint8_t> key;  // what the kernel wants to hear to find it again
  std::uint32_t id = 0;
};

// Costs milliseconds whatever there is to list: the table is one for all namespaces and is walked
// whole.
[[nodiscard]] Result<std::vector<TrackedFlow>> list_flows(NetfilterSocket& socket);
// Deletes these; one that is gone already is no error.
[[nodiscard]] Result<> delete_flows(NetfilterSocket& socket, const std::vector<TrackedFlow>& flows);

}  // namespace sallyport::host
