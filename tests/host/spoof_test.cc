// SPDX-License-Identifier: Apache-2.0
// A guest that writes its own packets, as root does: whatever it names as the source, and however
// it dresses the rest.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <net/ethernet.h>
#include <netinet/in.h>

#include "host/fixture.h"
#include "host/ruleset.h"

namespace sallyport::host {
namespace {

using lab::ip;
using testing::IsEmpty;
using testing::SizeIs;

class Spoof : public lab::NetworkTest {
 protected:
  Spoof() { sandbox.apply(allow_all()); }  // nothing but the form of the packet can be wrong
  std::string udp_from(const Address& source, std::uint8_t protocol = IPPROTO_UDP,
                       const std::string& before = {}) const {
    const Address to = source.is_v4() ? four : six;
    return ip({source, to, protocol}, before + lab::udp({source, 7}, {to, 7}, "x"));
  }
  Address four = *Address::parse("198.19.1.1"), six = *Address::parse("2001:db8:2::1");
};

TEST_F(Spoof, the_control_packets_pass) {
  sandbox.send_raw(udp_from(at.guest4));
  sandbox.send_raw(udp_from(at.guest6));
  EXPECT_THAT(sandbox.seen(), SizeIs(2));
}

TEST_F(Spoof, a_foreign_source_address_is_dropped) {
  for (const Address& source :
       {node4, node6, at.router4, at.router6, at.host_up4, at.host_up6, at.router_up4,
        at.router_up6, *Address::parse("10.209.0.34"), *Address::parse("fd53:616c:6c79:8::2"),
        *Address::parse("198.19.9.9"), *Address::parse("2001:db8:2::9"),
        *Address::parse("127.0.0.1"), *Address::parse("fe80::1"), link_local_of(at.guest_mac),
        *Address::parse("0.0.0.0"), *Address::parse("::")}) {
    sandbox.send_raw(udp_from(source));
  }
  EXPECT_THAT(sandbox.seen(), IsEmpty());
}

// TPROXY must not answer in another's name either.
TEST_F(Spoof, a_connection_from_a_foreign_source_does_not_reach_the_worker) {
  sandbox.apply(allow({}));
  const Endpoint to{four, 443};
  for (const auto* source : {"198.19.9.9", "10.209.0.34", "198.18.0.1"}) {
    const Address from = *Address::parse(source);
    sandbox.send_raw(ip({from, four, IPPROTO_TCP}, lab::tcp_syn({from, 4000}, to)));
    sandbox.send_raw(ip({from, four, IPPROTO_UDP}, lab::udp({from, 4000}, {four, 53}, "q")));
  }
  EXPECT_THAT(sandbox.seen(), IsEmpty());
  for (std::size_t i = 0; i < 6; ++i) EXPECT_FALSE(lab::readable(sandbox.worker[i], 0)) << i;
}

TEST_F(Spoof, a_foreign_link_layer_address_is_dropped) {
  auto mac = at.guest_mac;
  mac[5] ^= 1;
  const auto router = mac_of(LinkRole::router_guest, sandbox.network.slot);
  lab::send_frame(guest(), "eth0", mac, router, ETH_P_IP, udp_from(at.guest4));
  lab::send_frame(guest(), "eth0", mac, router, ETH_P_IPV6, udp_from(at.guest6));
  EXPECT_THAT(sandbox.seen(), IsEmpty());
}

// A second address of the guest's own making.
TEST_F(Spoof, an_address_that_the_guest_gives_itself_is_of_no_use) {
  const std::string in_guest =
      "nsenter --net=/proc/" + std::to_string(sandbox.guest->pid) + "/ns/net ";
  lab::run(in_guest + "ip -6 addr add 2001:db8:2::9/128 dev eth0 nodad");
  lab::run(in_guest + "ip addr add 198.19.9.9/32 dev eth0");
  lab::send_udp(lab::udp_socket(guest(), "[2001:db8:2::9]:7"), "[2001:db8:2::1]:7", "x");
  lab::send_udp(lab::udp_socket(guest(), "198.19.9.9:7"), "198.19.1.1:7", "x");
  EXPECT_THAT(sandbox.seen(), IsEmpty());
}

// IPv4 options.
TEST_F(Spoof, ipv4_options_are_dropped) {
  const std::string payload = lab::udp({at.guest4, 7}, {four, 7}, "x");
  const std::string router_alert("\x94\x04\0\0", 4), record_route("\x07\x07\x04\0\0\0\0\0", 8),
      nops("\x01\x01\x01\x01", 4);
  const std::string loose_source_route("\x83\x07\x04\x0a\x4d\0\x01\0", 8);
  for (const std::string& options : {router_alert, record_route, nops, loose_source_route}) {
    sandbox.send_raw(ip({at.guest4, four, IPPROTO_UDP, options}, payload));
  }
  EXPECT_THAT(sandbox.seen(), IsEmpty());
}

// extension headers before the payload, also where only reassembly brings them to light.
TEST_F(Spoof, ipv6_extension_headers_are_dropped) {
  sandbox.send_raw(udp_from(at.guest6, 0, lab::extension(IPPROTO_UDP)));
  sandbox.send_raw(udp_from(at.guest6, 60, lab::extension(IPPROTO_UDP)));
  sandbox.send_raw(udp_from(at.guest6, 43, lab::routing_header(IPPROTO_UDP)));
  sandbox.send_raw(udp_from(at.guest6, 60, lab::extension(43) + lab::routing_header(IPPROTO_UDP)));
  sandbox.send_raw(udp_from(at.guest6, 135, lab::extension(IPPROTO_UDP)));
  sandbox.send_raw(udp_from(at.guest6, 51, lab::extension(IPPROTO_UDP)));
  sandbox.send_raw(
      udp_from(at.guest6, 44, lab::fragment_header(60, 0, false, 5) + lab::extension(IPPROTO_UDP)));
  const std::string inner =
      lab::extension(IPPROTO_UDP) + lab::udp({at.guest6, 7}, {six, 7}, std::string(32, 'x'));
  sandbox.send_raw(
      ip({at.guest6, six, 44}, lab::fragment_header(60, 0, true, 6) + inner.substr(0, 16)));
  sandbox.send_raw(
      ip({at.guest6, six, 44}, lab::fragment_header(60, 16, false, 6) + inner.substr(16)));
  EXPECT_THAT(sandbox.seen(), IsEmpty());
}

// A datagram larger than the link arrives where it is allowed: fragments are no offence in
// themselves.
TEST_F(Spoof, large_datagrams_pass_in_pieces) {
  const Fd server4 = lab::udp_socket(internet.internet_ns, "198.19.1.1:7"),
           server6 = lab::udp_socket(internet.internet_ns, "[2001:db8:2::1]:7");
  const std::string large(6000, 'l');
  lab::send_udp(lab::udp_socket(guest()), "198.19.1.1:7", large);
  lab::send_udp(lab::udp_socket(guest(), "[::]:0"), "[2001:db8:2::1]:7", large);
  EXPECT_EQ(lab::receive(server4, 3000), large);
  EXPECT_EQ(lab::receive(server6, 3000), large);
}

// router advertisements, redirects and forged neighbours change nothing.
TEST_F(Spoof, neighbour_discovery_cannot_talk_the_router_into_anything) {
  const Address link = link_local_of(at.guest_mac), all_nodes = *Address::parse("ff02::1");
  const auto send = [&](const Address& from, const Address& to, std::uint8_t type,
                        const std::string& body) {
    sandbox.send_raw(
        ip({from, to, IPPROTO_ICMPV6, {}, 1, 0, 255}, lab::icmpv6(from, to, type, body)));
  };
  const std::string prefix_option = std::string(
      "\x03\x04\x40\xc0\xff\xff\xff\xff\xff\xff\xff\xff\0\0\0\0\x20\x01\x0d\xb8\0\x02\0\0\0\0\0\0\0"
      "\0\0\0",
      32);
  send(link, all_nodes, 134, std::string("\x40\0\xff\xff\0\0\0\0\0\0\0\0", 12) + prefix_option);
  send(link, at.router6, 137,
       std::string(4, '\0') + std::string(reinterpret_cast<const char*>(link.raw().data()), 16) +
           std::string(reinterpret_cast<const char*>(six.raw().data()), 16));
  const std::string target_mac("\x02\x01\x02\x5a\x99\x99\x99\x99", 8);
  for (const Address& claimed : {at.guest6, six, node6, at.host_up6}) {
    send(at.guest6, at.router6, 136,
         std::string("\x60\0\0\0", 4) +
             std::string(reinterpret_cast<const char*>(claimed.raw().data()), 16) + target_mac);
  }
  // Neighbours by the dozen, one per claimed source: the kernel's table is shared by all
  // namespaces.
  const auto router_mac = mac_of(LinkRole::router_guest, sandbox.network.slot);
  for (int i = 1; i < 40; ++i) {
    const Address claimed = *Address::parse("fe80::" + std::to_string(i));
    send(claimed, at.router6, 135,
         std::string(4, '\0') +
             std::string(reinterpret_cast<const char*>(at.router6.raw().data()), 16) +
             std::string("\x01\x01\x02\x5a\x99\x99\x99\x99", 8));
    std::string arp("\0\x01\x08\0\x06\x04\0\x01", 8);
    arp += std::string(reinterpret_cast<const char*>(at.guest_mac.data()), 6) +
           std::string("\x0a\xd1\x01", 3) + static_cast<char>(i);
    arp += std::string(6, '\0') +
           std::string(reinterpret_cast<const char*>(at.router4.raw().data() + 12), 4);
    lab::send_frame(guest(), "eth0", at.guest_mac, router_mac, ETH_P_ARP, arp);
  }
  sandbox.send_raw(udp_from(at.guest6));
  EXPECT_THAT(sandbox.seen(), SizeIs(1));  // the path still works, and nothing else came of it
  const std::string in_router = "nsenter --net=/run/netns/sp-" + sandbox.network.id + " ";
  lab::run(in_router + "ip neigh show dev sp-guest | grep -v PERMANENT | grep -vq . || [ $(" +
           in_router + "ip neigh show dev sp-guest | grep -vc PERMANENT) -le 1 ]");
  lab::run("! " + in_router + "ip -6 neigh show | grep -q 99:99");
  lab::run("! " + in_router + "ip -6 route show | grep -q 'proto ra'");
}

// A microVM resolves the gateway by itself.
TEST_F(Spoof, a_guest_that_asks_for_its_gateway_gets_an_answer) {
  const std::string in_guest =
      "nsenter --net=/proc/" + std::to_string(sandbox.guest->pid) + "/ns/net ";
  lab::run(in_guest + "ip neigh flush all nud permanent && " + in_guest +
           "ip -6 neigh flush all nud permanent");
  const Fd server4 = lab::udp_socket(internet.internet_ns, "198.19.1.1:7"),
           server6 = lab::udp_socket(internet.internet_ns, "[2001:db8:2::1]:7");
  lab::send_udp(lab::udp_socket(guest()), "198.19.1.1:7", "asked by ARP");
  lab::send_udp(lab::udp_socket(guest(), "[::]:0"), "[2001:db8:2::1]:7", "asked by ND");
  EXPECT_EQ(lab::receive(server4, 3000), "asked by ARP");
  EXPECT_EQ(lab::receive(server6, 3000), "asked by ND");
}

}  // namespace
}  // namespace sallyport::host
