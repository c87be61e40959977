// SPDX-License-Identifier: Apache-2.0
// Raw packets for tests, well-formed unless a test spoils them.
#pragma once

#include <cstdint>
#include <string>

#include "base/address.h"

namespace sallyport::host::lab {

// `protocol` is what follows the header; v4 or v6 by the addresses. `options` (IPv4): a multiple of
// 4 bytes.
struct IpFields {
  Address source, destination;
  std::uint8_t protocol = 0;
  std::string options = {};
  std::uint16_t id = 1;
  std::uint16_t fragment = 0;  // IPv4 flags and offset as on the wire
  std::uint8_t hop_limit = 64;
};
std::string ip(const IpFields& fields, const std::string& payload);

// With checksums over the pseudo header.
std::string udp(const Endpoint& source, const Endpoint& destination, const std::string& payload);
std::string tcp_syn(const Endpoint& source, const Endpoint& destination);
std::string echo_request(const Address& source, const Address& destination);  // ICMP or ICMPv6
std::string icmpv6(const Address& source, const Address& destination, std::uint8_t type,
                   const std::string& body);

// IPv6 extension headers: `next` is what follows.
std::string extension(std::uint8_t next);       // hop-by-hop, destination options: all padding
std::string routing_header(std::uint8_t next);  // type 0, no segments left
std::string fragment_header(std::uint8_t next, std::uint16_t offset, bool more, std::uint32_t id);

}  // namespace sallyport::host::lab
