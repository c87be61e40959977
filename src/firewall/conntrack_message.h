// SPDX-License-Identifier: Apache-2.0
// Reads ctnetlink DESTROY events: the accounting of flows that the kernel forwarded for a sandbox.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/address.h"
#include "base/bytes.h"

namespace sallyport::firewall {

struct EndedFlow {
  std::uint8_t protocol = 0;  // IANA number
  Endpoint source;            // as the guest sent it; ports 0 where the protocol has none
  Endpoint destination;
  std::uint32_t mark = 0;
  std::uint64_t bytes_up = 0, bytes_down = 0;      // 0 without nf_conntrack_acct
  std::optional<std::uint64_t> start_ns, stop_ns;  // since the epoch, with nf_conntrack_timestamp
  bool operator==(const EndedFlow&) const = default;
};

struct ConntrackBatch {
  std::vector<EndedFlow> flows;
  std::size_t skipped = 0;  // messages that could not be read
};

// One datagram of the netlink socket, any number of messages. Other events than DESTROY give
// nothing.
[[nodiscard]] ConntrackBatch parse_conntrack(Bytes datagram);

}  // namespace sallyport::firewall
