// SPDX-License-Identifier: Apache-2.0
// What is handed to the worker, what happens without one, and that the worker itself has no way
// around the rules.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "host/fixture.h"

namespace sallyport::host {
namespace {

using lab::dial;
using lab::ip;
using testing::HasSubstr;
using testing::IsEmpty;

enum {
  kTcp4,
  kTcp6,
  kDnsUdp4,
  kDnsUdp6,
  kDnsTcp4,
  kDnsTcp6,
  kNflog,
  kConntrack
};  // of firewall/control.h, from 0

class Intercept : public lab::NetworkTest {
 protected:
  // The next connection on a worker's listener and the address it was meant for.
  std::pair<Fd, std::string> accept(int listener) {
    const Fd& socket = sandbox.worker[static_cast<std::size_t>(listener)];
    if (!lab::readable(socket, 3000)) return {Fd(), "nobody"};
    Fd accepted(accept4(socket.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    sockaddr_storage local{};
    socklen_t length = sizeof local;
    getsockname(accepted.get(), reinterpret_cast<sockaddr*>(&local), &length);
    return {std::move(accepted),
            Endpoint::from_sockaddr(reinterpret_cast<sockaddr*>(&local), length)->to_string()};
  }
  // Asks `to`:53 over UDP and has the worker answer. What the guest got, from where.
  std::pair<std::string, std::string> ask_dns(const std::string& to, int worker_socket) {
    const Fd client = lab::udp_socket(guest(), to[0] == '[' ? "[::]:0" : "0.0.0.0:0");
    EXPECT_EQ(lab::send_udp(client, to, "question"), 0);
    const Fd& socket = sandbox.worker[static_cast<std::size_t>(worker_socket)];
    Endpoint from;
    if (lab::receive(socket, 3000, nullptr, &from) != "question")
      return {"", "the worker saw nothing"};
    sockaddr_storage address;
    const socklen_t length = from.to_sockaddr(address);
    EXPECT_EQ(sendto(socket.get(), "answer", 6, 0, reinterpret_cast<sockaddr*>(&address), length),
              6);
    Endpoint answerer;
    const std::string answer =
        lab::receive(client, 3000, nullptr, &answerer);  // connected: only from whom it asked
    return {answer, answerer.to_string()};
  }
};

// FW-181: any TCP connection, any port, both families, with its original destination.
TEST_F(Intercept, tcp_is_handed_to_the_worker_with_its_destination) {
  auto one = dial(guest(), "198.19.1.1:443");
  EXPECT_EQ(one.error, 0);
  EXPECT_EQ(accept(kTcp4).second, "198.19.1.1:443");
  auto two = dial(guest(), "[2001:db8:2::1]:22");
  EXPECT_EQ(two.error, 0);
  auto [socket, destination] = accept(kTcp6);
  EXPECT_EQ(destination, "[2001:db8:2::1]:22");
  // Data both ways.
  EXPECT_EQ(send(two.socket.get(), "ping", 4, 0), 4);
  EXPECT_EQ(lab::receive(socket, 3000), "ping");
  EXPECT_EQ(send(socket.get(), "pong", 4, 0), 4);
  EXPECT_EQ(lab::receive(two.socket, 3000), "pong");
  EXPECT_THAT(internet.seen(), IsEmpty());
}

// port 53 of any address is the worker's, the boundary's, denied ones and our own
// included.
TEST_F(Intercept, dns_to_any_address_is_answered_by_the_worker_in_its_name) {
  AddressPolicy policy = allow({});
  policy.refused = ranges({"169.254.0.0/16", "10.0.0.0/8", "fc00::/7"});
  policy.denied = ranges({"198.19.5.0/24", "0.0.0.0/0", "::/0", "127.0.0.0/8"});
  sandbox.apply(policy);
  const auto port53 = [](const Address& address) { return Endpoint{address, 53}.to_string(); };
  for (const std::string& to : {std::string("198.19.8.8:53"), std::string("169.254.169.253:53"),
                                std::string("198.19.5.5:53"), std::string("10.77.0.1:53"),
                                port53(at.router4), port53(at.host_up4), port53(node4)}) {
    EXPECT_EQ(ask_dns(to, kDnsUdp4), std::pair(std::string("answer"), to));
    const auto tcp = dial(guest(), to);
    EXPECT_EQ(tcp.error, 0) << to;
    EXPECT_EQ(accept(kDnsTcp4).second, Endpoint({at.router4, 15053}).to_string());
  }
  for (const std::string& to : {std::string("[2001:db8:2::8]:53"), std::string("[fd77::1]:53"),
                                port53(at.router6), port53(node6)}) {
    EXPECT_EQ(ask_dns(to, kDnsUdp6), std::pair(std::string("answer"), to));
    const auto tcp = dial(guest(), to);
    EXPECT_EQ(tcp.error, 0) << to;
    EXPECT_EQ(accept(kDnsTcp6).second, Endpoint({at.router6, 15053}).to_string());
  }
  EXPECT_THAT(internet.seen(), IsEmpty());
}

// D-17: an allowed range passes DNS as everything else; and back.
TEST_F(Intercept, dns_to_an_allowed_range_is_forwarded) {
  const Fd resolver = lab::udp_socket(internet.internet_ns, "198.19.8.8:53");
  EXPECT_EQ(ask_dns("198.19.8.8:53", kDnsUdp4),
            std::pair(std::string("answer"), std::string("198.19.8.8:53")));
  const Fd client = lab::udp_socket(guest(), "0.0.0.0:5000");
  for (int round = 0; round < 2; ++round) {
    sandbox.apply(allow({}));
    ASSERT_EQ(lab::send_udp(client, "198.19.8.8:53", "to the worker"), 0);
    EXPECT_EQ(lab::receive(sandbox.worker[kDnsUdp4], 3000), "to the worker");
    sandbox.apply(allow({"198.19.0.0/16"}));
    ASSERT_EQ(lab::send_udp(client, "198.19.8.8:53", "to the resolver"),
              0);  // the same flow, no trace of the former policy
    EXPECT_EQ(lab::receive(resolver, 3000), "to the resolver");
  }
}

// a datagram in pieces is judged whole, so its later pieces cannot go where the first may
// not.
TEST_F(Intercept, fragments_are_judged_as_whole_packets) {
  sandbox.apply(allow({}));
  const Endpoint from4{at.guest4, 4000}, to4{*Address::parse("198.19.1.1"), 53};
  const std::string dns = lab::udp(from4, to4, std::string(64, 'q'));
  sandbox.send_raw(ip({at.guest4, to4.address, IPPROTO_UDP, {}, 9, 0x2000}, dns.substr(0, 8)));
  sandbox.send_raw(ip({at.guest4, to4.address, IPPROTO_UDP, {}, 9, 1}, dns.substr(8)));
  EXPECT_EQ(lab::receive(sandbox.worker[kDnsUdp4], 3000), std::string(64, 'q'));

  const Endpoint from6{at.guest6, 4000}, to6{*Address::parse("2001:db8:2::1"), 53};
  const std::string dns6 = lab::udp(from6, to6, std::string(64, 'r'));
  sandbox.send_raw(ip({at.guest6, to6.address, 44},
                      lab::fragment_header(IPPROTO_UDP, 0, true, 9) + dns6.substr(0, 16)));
  sandbox.send_raw(ip({at.guest6, to6.address, 44},
                      lab::fragment_header(IPPROTO_UDP, 16, false, 9) + dns6.substr(16)));
  EXPECT_EQ(lab::receive(sandbox.worker[kDnsUdp6], 3000), std::string(64, 'r'));

  // A TCP header split after 8 bytes, a first piece without an end, a later one without a
  // beginning, overlapping ones.
  const Endpoint http4{to4.address, 80};
  const std::string syn = lab::tcp_syn(from4, http4);
  sandbox.send_raw(ip({at.guest4, http4.address, IPPROTO_TCP, {}, 10, 0x2000}, syn.substr(0, 8)));
  sandbox.send_raw(ip({at.guest4, http4.address, IPPROTO_TCP, {}, 10, 1}, syn.substr(8)));
  sandbox.send_raw(ip({at.guest4, http4.address, IPPROTO_TCP, {}, 11, 0x2000}, syn.substr(0, 16)));
  sandbox.send_raw(ip({at.guest4, http4.address, IPPROTO_TCP, {}, 12, 2}, syn));
  for (const std::uint16_t offset : std::initializer_list<std::uint16_t>{0x2000, 0x2000, 0}) {
    sandbox.send_raw(
        ip({at.guest4, http4.address, IPPROTO_UDP, {}, 13, offset}, std::string(16, 'o')));
  }
  EXPECT_THAT(sandbox.seen(), IsEmpty());
}

// R-097, I5: no worker, no way; and the guest is told at once.
TEST_F(Intercept, without_a_worker_everything_is_refused) {
  sandbox.apply(allow({}));
  sandbox.worker.clear();
  EXPECT_EQ(dial(guest(), "198.19.1.1:443").error, ECONNREFUSED);
  EXPECT_EQ(dial(guest(), "[2001:db8:2::1]:443").error, ECONNREFUSED);
  EXPECT_EQ(dial(guest(), "198.19.1.1:53").error, ECONNREFUSED);
  const Fd client = lab::udp_socket(guest(), "0.0.0.0:0");
  ASSERT_EQ(lab::send_udp(client, "198.19.1.1:53", "question"), 0);
  int error = 0;
  lab::receive(client, 3000, &error);
  EXPECT_EQ(error, ECONNREFUSED);
  EXPECT_THAT(sandbox.seen(), IsEmpty());
  // A new worker takes over where the old one was.
  sandbox.worker =
      *internet.as_daemon([&] { return open_worker_sockets(internet.node, sandbox.network); });
  const auto dialled = dial(guest(), "198.19.1.1:443");
  EXPECT_EQ(dialled.error, 0);
}

// "Nothing the worker sends may leave by another link": the sockets it holds in the router
// namespace reach the guest alone.
TEST_F(Intercept, the_sockets_of_the_worker_cannot_send_to_the_internet) {
  sandbox.apply(allow_all());
  for (const auto* to : {"198.19.1.1:7", "198.18.0.1:7", "10.209.0.29:7"}) {
    sockaddr_storage address;
    const socklen_t length = Endpoint::parse(to)->to_sockaddr(address);
    EXPECT_EQ(sendto(sandbox.worker[kDnsUdp4].get(), "out", 3, 0,
                     reinterpret_cast<sockaddr*>(&address), length),
              -1);
    EXPECT_EQ(errno, EPERM);
  }
  sockaddr_storage address;
  const socklen_t length = Endpoint::parse("[2001:db8:2::1]:7")->to_sockaddr(address);
  EXPECT_EQ(sendto(sandbox.worker[kDnsUdp6].get(), "out", 3, 0,
                   reinterpret_cast<sockaddr*>(&address), length),
            -1);
  EXPECT_THAT(sandbox.seen(), IsEmpty());
}

// I7 in depth: the uid of a worker, in the node's namespace.
TEST_F(Intercept, a_worker_on_the_node_reaches_resolvers_and_what_is_not_refused) {
  const Fd resolver = lab::tcp_listener(internet.internet_ns, "198.18.1.53:53");
  const Fd web = lab::tcp_listener(internet.internet_ns, "198.19.1.1:443");
  const Fd private_service = lab::tcp_listener(internet.internet_ns, "10.77.0.1:443");
  const Fd node_service = lab::tcp_listener(internet.node_ns, "0.0.0.0:2222");
  const auto as_worker = [&](const std::string& to) {
    int error = 0;
    std::thread([&] {
      (void)enter_namespace(internet.node_ns);
      syscall(SYS_setresuid, 1900000003, 1900000003, 1900000003);  // of this thread alone
      error = lab::dial_here(to, 3000).error;
    }).join();
    return error;
  };
  EXPECT_EQ(as_worker("198.18.1.53:53"), 0);
  EXPECT_EQ(as_worker("198.19.1.1:443"), 0);
  for (const auto* to : {"198.18.1.53:54", "10.77.0.1:443", "198.18.0.1:2222", "127.0.0.1:2222",
                         "10.209.0.29:2222", "[fd53:616c:6c79:7::1]:2222"}) {
    EXPECT_EQ(as_worker(to), ECONNREFUSED) << to;
  }
  EXPECT_EQ(dial(internet.node_ns, "10.77.0.1:443").error,
            0);  // others of the node are not concerned
}

// What is refused leaves a line in the egress log, so the kernel must tell.
TEST_F(Intercept, refusals_are_told_by_nflog_with_their_reason) {
  AddressPolicy policy = allow({});
  policy.refused = ranges({"10.0.0.0/8"});
  policy.denied = ranges({"198.19.5.0/24"});
  sandbox.apply(policy);
  dial(guest(), "10.77.0.1:80");
  dial(guest(), "198.19.5.1:80");
  lab::send_udp(lab::udp_socket(guest()), "198.19.1.1:443", "quic");
  sandbox.send_raw(lab::ip({node4, *Address::parse("198.19.1.1"), IPPROTO_UDP},
                           lab::udp({node4, 1}, {*Address::parse("198.19.1.1"), 1}, "x")));
  std::string all;
  while (lab::readable(sandbox.worker[kNflog], 500)) all += lab::receive(sandbox.worker[kNflog], 0);
  for (const auto* reason :
       {"sp:boundary", "sp:denied_range", "sp:protocol_not_allowed", "sp:spoofed_source"}) {
    EXPECT_THAT(all, HasSubstr(std::string(reason) + '\0')) << reason;
  }
}

}  // namespace
}  // namespace sallyport::host
