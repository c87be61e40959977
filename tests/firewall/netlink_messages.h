// SPDX-License-Identifier: Apache-2.0
// Builds netlink messages as the kernel does, for the tests of what reads them.
#pragma once

#include <linux/netfilter/nfnetlink.h>
#include <linux/netfilter/nfnetlink_conntrack.h>
#include <linux/netfilter/nfnetlink_log.h>
#include <linux/netlink.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "support/dns_authority.h"

namespace sallyport::test {

inline std::string big(std::uint64_t value, unsigned bytes) {
  std::string out;
  for (unsigned i = bytes; i-- > 0;) out.push_back(static_cast<char>(value >> (8 * i)));
  return out;
}
inline std::string attribute(std::uint16_t type, std::string_view data) {
  const nlattr header{static_cast<std::uint16_t>(sizeof(nlattr) + data.size()), type};
  std::string out(reinterpret_cast<const char*>(&header), sizeof header);
  out += data;
  out.resize((out.size() + 3) & ~std::size_t{3});
  return out;
}
inline std::string nested(std::uint16_t type, std::string_view data) {
  return attribute(static_cast<std::uint16_t>(type | NLA_F_NESTED), data);
}
inline std::string message(std::uint16_t type, std::string_view attributes) {
  const nfgenmsg family{2, 0, 0};
  const nlmsghdr header{
      static_cast<std::uint32_t>(sizeof(nlmsghdr) + sizeof family + attributes.size()), type, 0, 0,
      0};
  std::string out(reinterpret_cast<const char*>(&header), sizeof header);
  out.append(reinterpret_cast<const char*>(&family), sizeof family);
  out += attributes;
  return out;
}

inline std::string packet4(std::uint8_t protocol, std::string_view source,
                           std::string_view destination, std::string_view transport,
                           std::uint16_t fragment = 0) {
  return std::string("\x45\0", 2) + big(20 + transport.size(), 2) + big(1, 2) + big(fragment, 2) +
         "\x40" + static_cast<char>(protocol) + big(0, 2) + address_data(source) +
         address_data(destination) + std::string(transport);
}
inline std::string packet6(std::uint8_t next, std::string_view source, std::string_view destination,
                           std::string_view rest) {
  return big(0x60000000, 4) + big(rest.size(), 2) + static_cast<char>(next) + "\x40" +
         address_data(source) + address_data(destination) + std::string(rest);
}
inline std::string ports(std::uint16_t source, std::uint16_t destination) {
  return big(source, 2) + big(destination, 2);
}

inline std::string nflog(std::string_view prefix, std::string_view packet) {
  return message((NFNL_SUBSYS_ULOG << 8) | NFULNL_MSG_PACKET,
                 attribute(NFULA_PACKET_HDR, std::string("\x08\x00\x01\x00", 4)) +
                     attribute(NFULA_PREFIX, std::string(prefix) + '\0') +
                     attribute(NFULA_PAYLOAD, packet));
}

struct Destroyed {
  std::uint8_t protocol = 6;
  std::string source = "10.209.0.2", destination = "198.18.0.10";
  std::uint16_t source_port = 40000, destination_port = 443;
  std::uint32_t mark = 0x5a11;
};
inline std::string tuple(std::uint16_t type, const Destroyed& flow, bool reply) {
  const bool v4 = address_data(flow.source).size() == 4;
  const std::string& from = reply ? flow.destination : flow.source;
  const std::string& to = reply ? flow.source : flow.destination;
  return nested(
      type,
      nested(CTA_TUPLE_IP, attribute(v4 ? CTA_IP_V4_SRC : CTA_IP_V6_SRC, address_data(from)) +
                               attribute(v4 ? CTA_IP_V4_DST : CTA_IP_V6_DST, address_data(to))) +
          nested(CTA_TUPLE_PROTO,
                 attribute(CTA_PROTO_NUM, big(flow.protocol, 1)) +
                     attribute(CTA_PROTO_SRC_PORT,
                               big(reply ? flow.destination_port : flow.source_port, 2)) +
                     attribute(CTA_PROTO_DST_PORT,
                               big(reply ? flow.source_port : flow.destination_port, 2))));
}
inline std::string destroyed(const Destroyed& flow) {
  const auto counters = [](std::uint16_t type, std::uint64_t bytes) {
    return nested(type, attribute(CTA_COUNTERS_PACKETS, big(7, 8)) +
                            attribute(CTA_COUNTERS_BYTES, big(bytes, 8)));
  };
  return message(
      (NFNL_SUBSYS_CTNETLINK << 8) | IPCTNL_MSG_CT_DELETE,
      tuple(CTA_TUPLE_ORIG, flow, false) + tuple(CTA_TUPLE_REPLY, flow, true) +
          attribute(CTA_STATUS, big(0x18e, 4)) + counters(CTA_COUNTERS_ORIG, 1234) +
          counters(CTA_COUNTERS_REPLY, 56789) +
          nested(CTA_TIMESTAMP, attribute(CTA_TIMESTAMP_START, big(1'000'000'000, 8)) +
                                    attribute(CTA_TIMESTAMP_STOP, big(3'500'000'000, 8))) +
          attribute(CTA_MARK, big(flow.mark, 4)));
}

}  // namespace sallyport::test
