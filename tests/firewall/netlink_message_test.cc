// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <memory>

#include "firewall/conntrack_message.h"
#include "firewall/netlink_messages.h"
#include "firewall/nflog_message.h"

namespace sallyport::firewall {
namespace {

using test::destroyed;
using test::nflog;
using test::packet4;
using test::packet6;
using test::ports;

Endpoint endpoint(std::string_view text) { return *Endpoint::parse(text); }

// In a buffer of exactly its size, so that ASan sees one byte too many.
template <class F>
auto exactly(std::string_view bytes, F parse) {
  const auto buffer = std::make_unique<std::uint8_t[]>(bytes.size());
  std::memcpy(buffer.get(), bytes.data(), bytes.size());
  return parse(Bytes(buffer.get(), bytes.size()));
}

TEST(NflogMessage, tells_what_was_refused_and_why) {
  const auto batch =
      exactly(nflog("sp:boundary", packet4(6, "10.209.0.2", "169.254.169.254", ports(40000, 80))),
              parse_nflog);
  ASSERT_EQ(batch.packets.size(), 1U);
  EXPECT_EQ(batch.packets[0], (RefusedPacket{"boundary", 6, endpoint("10.209.0.2:40000"),
                                             endpoint("169.254.169.254:80")}));
  EXPECT_EQ(batch.skipped, 0U);
}

TEST(NflogMessage, reads_ipv6) {
  const auto batch = exactly(
      nflog("sp:protocol_not_allowed ", packet6(17, "fd53::2", "2001:db8::1", ports(5, 443))),
      parse_nflog);
  ASSERT_EQ(batch.packets.size(), 1U);
  EXPECT_EQ(batch.packets[0], (RefusedPacket{"protocol_not_allowed", 17, endpoint("[fd53::2]:5"),
                                             endpoint("[2001:db8::1]:443")}));
}

// extension headers before the transport header.
TEST(NflogMessage, finds_the_transport_behind_ipv6_extension_headers) {
  const std::string options =
      std::string("\x2b\0", 2) + std::string(6, '\0');  // hop-by-hop, then routing
  const std::string routing = std::string("\x2c\x01", 2) + std::string(14, '\0');  // then fragment
  const std::string fragment =
      std::string("\x06\0\0\0", 4) + std::string(4, '\0');  // first fragment, then TCP
  const auto batch = exactly(
      nflog("sp:boundary",
            packet6(0, "fd53::2", "2001:db8::1", options + routing + fragment + ports(7, 8))),
      parse_nflog);
  ASSERT_EQ(batch.packets.size(), 1U);
  EXPECT_EQ(batch.packets[0].protocol, 6);
  EXPECT_EQ(batch.packets[0].destination, endpoint("[2001:db8::1]:8"));
}

// a later fragment has no transport header, whatever its bytes look like.
TEST(NflogMessage, takes_no_ports_from_a_later_fragment) {
  const auto batch = exactly(
      nflog("sp:boundary", packet4(6, "10.209.0.2", "198.18.0.1", ports(7, 8), 100)), parse_nflog);
  ASSERT_EQ(batch.packets.size(), 1U);
  EXPECT_EQ(batch.packets[0].destination, endpoint("198.18.0.1:0"));
}

TEST(NflogMessage, icmp_has_no_ports) {
  const auto batch =
      exactly(nflog("sp:protocol_not_allowed", packet4(1, "10.209.0.2", "198.18.0.1", "\x08")),
              parse_nflog);
  ASSERT_EQ(batch.packets.size(), 1U);
  EXPECT_EQ(batch.packets[0].destination.port, 0);
  EXPECT_EQ(batch.packets[0].protocol, 1);
}

TEST(NflogMessage, reads_every_message_of_a_datagram) {
  const std::string one = nflog("sp:boundary", packet4(6, "10.209.0.2", "198.18.0.1", ports(1, 2)));
  const std::string foreign =
      nflog("fw-drop: ", packet4(6, "10.209.0.2", "198.18.0.1", ports(1, 2)));
  const auto batch = exactly(one + foreign + one, parse_nflog);
  EXPECT_EQ(batch.packets.size(), 2U);
  EXPECT_EQ(batch.skipped, 1U);
}

TEST(NflogMessage, refuses_a_reason_that_is_not_plain) {
  for (const std::string prefix :
       {"sp:", "sp:a b", "sp:\"", "sp:UPPER", "sp:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"}) {
    const auto batch =
        exactly(nflog(prefix, packet4(6, "10.209.0.2", "198.18.0.1", ports(1, 2))), parse_nflog);
    EXPECT_TRUE(batch.packets.empty()) << prefix;
    EXPECT_EQ(batch.skipped, 1U) << prefix;
  }
}

TEST(NflogMessage, survives_truncation_at_every_byte) {
  const std::string whole =
      nflog("sp:boundary", packet6(0, "fd53::2", "2001:db8::1",
                                   std::string("\x06\0", 2) + std::string(6, '\0') + ports(7, 8)));
  for (std::size_t length = 0; length < whole.size(); ++length) {
    const auto batch = exactly(whole.substr(0, length), parse_nflog);
    EXPECT_TRUE(batch.packets.empty()) << length;
    EXPECT_EQ(batch.skipped, length == 0 ? 0U : 1U) << length;
  }
}

TEST(NflogMessage, survives_a_truncated_packet_inside_a_whole_message) {
  const std::string packet = packet6(0, "fd53::2", "2001:db8::1",
                                     std::string("\x06\0", 2) + std::string(6, '\0') + ports(7, 8));
  for (std::size_t length = 0; length < packet.size(); ++length) {
    const auto batch = exactly(nflog("sp:boundary", packet.substr(0, length)), parse_nflog);
    ASSERT_EQ(batch.packets.size(), length < 40 ? 0U : 1U) << length;
    if (length >= 40) EXPECT_EQ(batch.packets[0].destination.port, 0) << length;
  }
}

TEST(ConntrackMessage, tells_the_flow_its_bytes_and_times) {
  const auto batch = exactly(destroyed({}), parse_conntrack);
  ASSERT_EQ(batch.flows.size(), 1U);
  const EndedFlow expected{6,
                           endpoint("10.209.0.2:40000"),
                           endpoint("198.18.0.10:443"),
                           0x5a11,
                           1234,
                           56789,
                           1'000'000'000,
                           3'500'000'000};
  EXPECT_EQ(batch.flows[0], expected);
}

TEST(ConntrackMessage, reads_ipv6) {
  const auto batch = exactly(destroyed({.protocol = 17,
                                        .source = "fd53::2",
                                        .destination = "2001:db8::1",
                                        .destination_port = 123}),
                             parse_conntrack);
  ASSERT_EQ(batch.flows.size(), 1U);
  EXPECT_EQ(batch.flows[0].destination, endpoint("[2001:db8::1]:123"));
}

TEST(ConntrackMessage, other_events_give_nothing) {
  std::string created = destroyed({});
  created[4] = IPCTNL_MSG_CT_NEW;
  const auto batch = exactly(created, parse_conntrack);
  EXPECT_TRUE(batch.flows.empty());
  EXPECT_EQ(batch.skipped, 0U);
}

TEST(ConntrackMessage, survives_truncation_at_every_byte) {
  const std::string whole = destroyed({});
  for (std::size_t length = 1; length < whole.size(); ++length) {
    const auto batch = exactly(whole.substr(0, length), parse_conntrack);
    EXPECT_TRUE(batch.flows.empty()) << length;
    EXPECT_EQ(batch.skipped, 1U) << length;
  }
}

TEST(ConntrackMessage, survives_every_length_field_being_wrong) {
  const std::string whole = destroyed({});
  for (std::size_t at = 0; at < whole.size(); ++at) {
    for (const char value : {'\0', '\x03', '\x7f', '\xff'}) {
      std::string broken = whole;
      broken[at] = value;
      const auto batch = exactly(broken, parse_conntrack);
      EXPECT_LE(batch.flows.size(), 1U);
    }
  }
}

}  // namespace
}  // namespace sallyport::firewall
