// SPDX-License-Identifier: Apache-2.0
// What a guest reaches under which policy: real packets, counted where they would arrive.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "host/fixture.h"

namespace sallyport::host {
namespace {

using lab::dial;
using lab::echo_request;
using lab::ip;
using testing::IsEmpty;
using testing::SizeIs;

using Network = lab::NetworkTest;

// FW-004, D-09: allow-all is kernel forwarding behind one masquerade, TCP, UDP and ICMP alike, both
// families.
TEST_F(Network, allow_all_is_forwarded_and_masqueraded_in_both_families) {
  const Fd server4 = lab::tcp_listener(internet.internet_ns, "198.18.1.10:80");
  const Fd server6 = lab::tcp_listener(internet.internet_ns, "[2001:db8:1::10]:80");
  sandbox.apply(allow_all());
  EXPECT_EQ(dial(guest(), "198.18.1.10:80").error, 0);
  EXPECT_EQ(dial(guest(), "[2001:db8:1::10]:80").error, 0);
  const Fd quic = lab::udp_socket(guest());
  EXPECT_EQ(lab::send_udp(quic, "198.18.1.10:443", "quic"), 0);
  sandbox.send_raw(ip({at.guest4, *Address::parse("198.18.1.10"), IPPROTO_ICMP},
                      echo_request(at.guest4, *Address::parse("198.18.1.10"))));
  const auto seen = sandbox.seen();
  int udp = 0, icmp = 0;
  for (const auto& packet : seen) {
    EXPECT_TRUE(packet.source == node4 || packet.source == node6) << packet.source.to_string();
    udp += packet.protocol == IPPROTO_UDP ? 1 : 0;
    icmp += packet.protocol == IPPROTO_ICMP ? 1 : 0;
  }
  EXPECT_EQ(udp, 1);
  EXPECT_EQ(icmp, 1);
}

// FW-186, R-089, R-093: an allowed range passes every protocol, in both families.
TEST_F(Network, an_allowed_range_passes_every_protocol) {
  sandbox.apply(allow({"198.19.0.0/16", "2001:db8:2::/48"}));
  const Address four = *Address::parse("198.19.1.1"), six = *Address::parse("2001:db8:2::1");
  const std::string gre("\0\0\x08\0payload", 11);
  sandbox.send_raw(ip({at.guest4, four, 47}, gre));
  sandbox.send_raw(ip({at.guest6, six, 47}, gre));
  for (const std::uint8_t protocol : std::initializer_list<std::uint8_t>{50, 253}) {
    sandbox.send_raw(ip({at.guest4, four, protocol}, "payload of no known kind"));
    sandbox.send_raw(ip({at.guest6, six, protocol}, "payload of no known kind"));
  }
  sandbox.send_raw(ip({at.guest4, four, IPPROTO_ICMP}, echo_request(at.guest4, four)));
  sandbox.send_raw(ip({at.guest6, six, IPPROTO_ICMPV6}, echo_request(at.guest6, six)));
  EXPECT_THAT(sandbox.seen(), SizeIs(8));
}

// D-09, FW-186: without an allowed range nothing but TCP and DNS has anywhere
// to go.
TEST_F(Network, other_protocols_reach_nobody_without_an_allowed_range) {
  sandbox.apply(allow({}));
  const Address four = *Address::parse("198.19.1.1"), six = *Address::parse("2001:db8:2::1");
  for (const std::uint8_t protocol :
       std::initializer_list<std::uint8_t>{4, 41, 47, 50, 51, 132, 253}) {
    sandbox.send_raw(ip({at.guest4, four, protocol}, "payload of no known kind"));
    sandbox.send_raw(ip({at.guest6, six, protocol}, "payload of no known kind"));
  }
  sandbox.send_raw(ip({at.guest4, four, IPPROTO_ICMP}, echo_request(at.guest4, four)));
  sandbox.send_raw(ip({at.guest6, six, IPPROTO_ICMPV6}, echo_request(at.guest6, six)));
  EXPECT_THAT(sandbox.seen(), IsEmpty());
}

// a client learns at once that UDP goes nowhere, and falls back.
TEST_F(Network, udp_is_rejected_with_icmp_at_once) {
  for (const auto* to :
       {"198.19.1.1:443", "[2001:db8:2::1]:443", "198.19.1.1:123", "198.19.1.1:5353"}) {
    const Fd socket = lab::udp_socket(guest(), to[0] == '[' ? "[::]:0" : "0.0.0.0:0");
    ASSERT_EQ(lab::send_udp(socket, to, "hello"), 0);
    int error = 0;
    EXPECT_EQ(lab::receive(socket, 3000, &error), "");
    EXPECT_TRUE(error == EHOSTUNREACH || error == EACCES) << to << " " << error;
  }
}

// a browser tries many at once; the kernel's own limit on ICMP errors must not eat
// the answers.
TEST_F(Network, every_udp_attempt_is_answered) {
  for (int i = 0; i < 200; ++i) {
    const bool four = i % 2 == 0;
    const Fd socket = lab::udp_socket(guest(), four ? "0.0.0.0:0" : "[::]:0");
    ASSERT_EQ(lab::send_udp(socket, four ? "198.19.1.1:443" : "[2001:db8:2::1]:443", "quic"), 0);
    int error = 0;
    lab::receive(socket, 3000, &error);
    ASSERT_NE(error, 0) << i;
  }
}

// D-18, R-091: the boundary over denied over allowed, whatever the lengths and the order.
TEST_F(Network, denied_wins_inside_allowed_and_alone_grants_nothing) {
  const Fd open = lab::tcp_listener(internet.internet_ns, "198.19.1.1:80");
  const Fd shut = lab::tcp_listener(internet.internet_ns, "198.19.5.5:80");
  AddressPolicy policy =
      allow({"198.19.5.5/32", "198.19.0.0/16", "2001:db8:2::/48", "198.19.5.0/25"});
  policy.denied = ranges({"198.19.5.0/24", "2001:db8:2:1::/64"});
  sandbox.apply(policy);
  EXPECT_EQ(dial(guest(), "198.19.1.1:80").error, 0);
  sandbox.seen();
  EXPECT_EQ(dial(guest(), "198.19.5.5:80").error, ECONNREFUSED);
  EXPECT_EQ(dial(guest(), "[2001:db8:2:1::5]:80").error, ECONNREFUSED);
  const Fd socket = lab::udp_socket(guest());
  lab::send_udp(socket, "198.19.5.5:7", "hello");
  for (const auto& packet : sandbox.seen())
    EXPECT_NE(packet.destination, *Address::parse("198.19.5.5"));

  AddressPolicy alone;
  alone.denied = ranges({"198.19.5.0/24"});
  alone.allowed = ranges({lab::kBeacon});
  sandbox.apply(alone);
  lab::send_udp(lab::udp_socket(guest()), "198.19.1.1:7", "hello");
  EXPECT_THAT(sandbox.seen(), IsEmpty());
}

// I7, D-16, R-088: the boundary holds under allow-all, and a denied IPv4 range holds in its IPv6
// disguises.
TEST_F(Network, the_boundary_and_disguised_addresses_are_refused_under_allow_all) {
  AddressPolicy policy = allow_all();
  policy.refused = ranges({"10.0.0.0/8", "169.254.0.0/16", "fc00::/7"});
  policy.denied = ranges({"198.19.5.0/24"});
  sandbox.apply(policy);
  for (const auto* to : {"10.77.0.1:80", "169.254.169.254:80", "[fd77::1]:80", "198.19.5.1:80",
                         "[64:ff9b::c613:501]:80", "[2002:c613:501::]:80", "[::c613:501]:80",
                         "[2001:0:1:2:3:4:39ec:fafe]:80"}) {
    EXPECT_EQ(dial(guest(), to).error, ECONNREFUSED) << to;
  }
  // What a socket would not send: mapped, loopback, unspecified, link-local and multicast
  // destinations.
  for (const auto* to : {"::ffff:198.19.1.1", "fe80::1", "ff02::1", "ff0e::1", "::1"}) {
    Address::Raw raw = Address::parse(to)->raw();
    std::string packet = ip({at.guest6, *Address::parse("2001:db8:2::1"), IPPROTO_UDP},
                            lab::udp({at.guest6, 7}, {Address(raw), 7}, "x"));
    packet.replace(24, 16, reinterpret_cast<const char*>(raw.data()), 16);
    sandbox.send_raw(packet);
  }
  for (const auto* to : {"127.0.0.1", "0.0.0.0", "224.0.0.1", "239.1.2.3", "255.255.255.255"}) {
    const Address address = *Address::parse(to);
    sandbox.send_raw(
        ip({at.guest4, address, IPPROTO_UDP}, lab::udp({at.guest4, 7}, {address, 7}, "x")));
  }
  EXPECT_THAT(sandbox.seen(), IsEmpty());
}

// FW-187, SB: neither the node, nor the router, nor the listeners there can be dialled, by any of
// their addresses.
TEST_F(Network, the_node_and_the_router_cannot_be_dialled) {
  const Fd node_service4 = lab::tcp_listener(internet.node_ns, "0.0.0.0:2222");
  const Fd node_service6 = lab::tcp_listener(internet.node_ns, "[::]:2222");
  const Fd node_udp = lab::udp_socket(internet.node_ns, "0.0.0.0:2222");
  sandbox.apply(allow_all());
  const auto with_port = [](const Address& address, int port) {
    return Endpoint{address, static_cast<std::uint16_t>(port)}.to_string();
  };
  for (const Address& address : {node4, node6, at.host_up4, at.host_up6, at.router4, at.router6,
                                 at.router_up4, at.router_up6}) {
    for (const int port : {2222, 15001, 15053}) {
      EXPECT_EQ(dial(guest(), with_port(address, port)).error, ECONNREFUSED)
          << with_port(address, port);
    }
    if (address.is_v4()) lab::send_udp(lab::udp_socket(guest()), with_port(address, 2222), "hello");
  }
  sandbox.seen();
  EXPECT_FALSE(lab::readable(node_service4, 0));
  EXPECT_FALSE(lab::readable(node_service6, 0));
  EXPECT_FALSE(lab::readable(node_udp, 0));
  for (std::size_t i = 0; i < 6; ++i) EXPECT_FALSE(lab::readable(sandbox.worker[i], 0)) << i;
}

TEST_F(Network, another_sandbox_cannot_be_dialled) {
  lab::Sandbox other(internet, "o", 4);
  const Fd service4 = lab::tcp_listener(other.guest->ns, "0.0.0.0:80");
  const Fd service6 = lab::tcp_listener(other.guest->ns, "[::]:80");
  sandbox.apply(allow_all());
  other.apply(allow_all());
  for (const Address& address : {other.at().guest4, other.at().guest6, other.at().router4,
                                 other.at().router_up4, other.at().router_up6}) {
    EXPECT_EQ(dial(guest(), Endpoint{address, 80}.to_string()).error, ECONNREFUSED)
        << address.to_string();
  }
  // Nor by a route of its own making: the packet is refused by its destination, not by the table.
  EXPECT_FALSE(lab::readable(service4, 0));
  EXPECT_FALSE(lab::readable(service6, 0));
}

// Nobody outside opens a connection to a guest: not the node, not the internet with a route to it.
TEST_F(Network, nobody_outside_can_dial_the_guest) {
  const Fd service4 = lab::tcp_listener(guest(), "0.0.0.0:80");
  const Fd service6 = lab::tcp_listener(guest(), "[::]:80");
  sandbox.apply(allow_all());
  EXPECT_NE(dial(internet.node_ns, Endpoint{at.guest4, 80}.to_string(), 300).error, 0);
  EXPECT_NE(dial(internet.node_ns, Endpoint{at.guest6, 80}.to_string(), 300).error, 0);
  lab::run("ip -n " + internet.internet_name() + " route add " + at.guest4.to_string() +
           " via 198.18.0.1");
  lab::run("ip -n " + internet.internet_name() + " route add " + at.guest6.to_string() +
           " via 2001:db8::1");
  EXPECT_NE(dial(internet.internet_ns, Endpoint{at.guest4, 80}.to_string(), 300).error, 0);
  EXPECT_NE(dial(internet.internet_ns, Endpoint{at.guest6, 80}.to_string(), 300).error, 0);
  EXPECT_FALSE(lab::readable(service4, 0));
  EXPECT_FALSE(lab::readable(service6, 0));
}

// IPv6 that leads nowhere says so at once.
TEST_F(Network, a_node_without_an_ipv6_route_is_noticed_at_once) {
  lab::run("ip -n " + internet.node_name() + " -6 route del default");
  sandbox.apply(allow_all());
  EXPECT_EQ(dial(guest(), "[2001:db8:2::1]:80", 900).error,
            ECONNREFUSED);  // a second try of TCP comes after 1 s
}

// the guest's link is no wider than the way out.
TEST(NetworkMtu, the_guest_link_is_no_wider_than_the_uplink) {
  lab::Internet internet;
  lab::run("ip -n " + internet.node_name() + " link set up0 mtu 1400");
  lab::Sandbox sandbox(internet, "m", 5);
  lab::run("nsenter --net=/proc/" + std::to_string(sandbox.guest->pid) +
           "/ns/net ip link show eth0 | grep -q 'mtu 1400'");
}

}  // namespace
}  // namespace sallyport::host
