// SPDX-License-Identifier: Apache-2.0
// Reads what nfnetlink_log sends: packets that the ruleset refused, with the prefix "sp:<reason>"
// and the first bytes of the packet. The netlink framing is the kernel's, the packet inside is the
// guest's: both are checked to the last byte.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/address.h"
#include "base/bytes.h"

namespace sallyport::firewall {

struct RefusedPacket {
  std::string reason;         // of the prefix, without "sp:"; [a-z0-9_]{1,32}
  std::uint8_t protocol = 0;  // IANA number, after IPv6 extension headers; 255 if not reached
  Endpoint source;            // port 0 if the protocol has none or the packet was too short
  Endpoint destination;
  bool operator==(const RefusedPacket&) const = default;
};

struct NflogBatch {
  std::vector<RefusedPacket> packets;
  std::size_t skipped =
      0;  // messages or packets that could not be read, or that carry a foreign prefix
  bool overrun = false;  // the kernel says that it lost messages
};

// One datagram of the netlink socket, any number of messages.
[[nodiscard]] NflogBatch parse_nflog(Bytes datagram);

}  // namespace sallyport::firewall
