// SPDX-License-Identifier: Apache-2.0
// A policy that changes under open flows (I4, D-15, R-094, R-095, R-099).
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "host/conntrack.h"
#include "host/fixture.h"
#include "host/ruleset.h"

namespace sallyport::host {
namespace {

using lab::dial;
using testing::IsEmpty;

struct Connection {
  Fd guest, server;
};

class Update : public lab::NetworkTest {
 protected:
  Connection connect_to(const std::string& to) {
    const Fd listener = lab::tcp_listener(internet.internet_ns, to);
    Connection connection;
    auto dialled = dial(guest(), to);
    EXPECT_EQ(dialled.error, 0);
    EXPECT_TRUE(lab::readable(listener, 3000));
    connection.guest = std::move(dialled.socket);
    connection.server = Fd(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    return connection;
  }
  static bool passes(const Fd& from, const Fd& to, const std::string& text) {
    return send(from.get(), text.data(), text.size(), MSG_NOSIGNAL) >= 0 &&
           lab::receive(to, 3000) == text;
  }
};

TEST_F(Update, a_forwarded_connection_is_cut_and_the_guest_told_even_if_it_only_listens) {
  sandbox.apply(allow({"198.19.0.0/16", "2001:db8:2::/48"}));
  for (const auto* to : {"198.19.1.1:80", "[2001:db8:2::1]:80"}) {
    sandbox.apply(allow({"198.19.0.0/16", "2001:db8:2::/48"}));
    const Connection connection = connect_to(to);
    EXPECT_TRUE(passes(connection.guest, connection.server, "before"));
    const Applied applied = sandbox.apply(allow({}));
    EXPECT_EQ(applied.cut, 1U);
    EXPECT_EQ(send(connection.server.get(), "after", 5, MSG_NOSIGNAL), 5);
    int error = 0;
    EXPECT_EQ(lab::receive(connection.guest, 1000, &error), "");  // without sending anything itself
    EXPECT_EQ(error, ECONNRESET);
    EXPECT_FALSE(lab::readable(connection.server, 0));
  }
}

TEST_F(Update, what_the_guest_sends_after_the_call_returned_arrives_nowhere) {
  AddressPolicy denied = allow({});
  denied.denied = ranges({"198.19.0.0/16"});
  AddressPolicy refused = allow({"198.19.0.0/16"});
  refused.refused = ranges({"198.19.0.0/16"});
  for (const AddressPolicy& policy : {allow({}), denied, refused}) {
    sandbox.apply(allow({"198.19.0.0/16"}));
    const Connection connection = connect_to("198.19.1.1:80");
    const Fd client = lab::udp_socket(guest(), "0.0.0.0:6000"),
             server = lab::udp_socket(internet.internet_ns, "198.19.1.1:6000");
    ASSERT_EQ(lab::send_udp(client, "198.19.1.1:6000", "before"), 0);
    EXPECT_EQ(lab::receive(server, 3000), "before");
    sandbox.seen();
    EXPECT_GE(sandbox.apply(policy).cut, 2U);
    send(connection.guest.get(), "after", 5, MSG_NOSIGNAL);
    lab::send_udp(client, "198.19.1.1:6000", "after");
    for (const auto& packet : sandbox.seen())
      EXPECT_EQ(packet.payload.find("after"), std::string::npos);
  }
}

TEST_F(Update, what_is_still_allowed_is_not_touched) {
  sandbox.apply(allow({"198.19.0.0/16"}));
  const Connection kept = connect_to("198.19.1.1:80");
  const Connection cut = connect_to("198.19.2.1:80");
  const Applied applied = sandbox.apply(allow({"198.19.1.0/24"}));
  EXPECT_EQ(applied.cut, 1U);
  EXPECT_GE(applied.kept, 1U);
  EXPECT_TRUE(passes(kept.guest, kept.server, "on"));
  EXPECT_TRUE(passes(kept.server, kept.guest, "and back"));
  EXPECT_EQ(sandbox.apply(allow_all()).cut, 0U);
  EXPECT_TRUE(passes(kept.guest, kept.server, "still"));
}

// D-15: an address that becomes open does not take the connection away from the worker that holds
// it.
TEST_F(Update, a_connection_of_the_worker_survives_when_its_address_is_opened) {
  sandbox.apply(allow({}));
  const Fd server = lab::tcp_listener(internet.internet_ns, "198.19.1.1:80");
  const auto client = dial(guest(), "198.19.1.1:80");
  ASSERT_TRUE(lab::readable(sandbox.worker[0], 3000));
  const Fd at_worker(
      accept4(sandbox.worker[0].get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  sandbox.apply(allow_all());
  EXPECT_TRUE(passes(client.socket, at_worker, "still here"));
  EXPECT_TRUE(passes(at_worker, client.socket, "me too"));
  const auto fresh = dial(guest(), "198.19.1.1:80");
  EXPECT_TRUE(lab::readable(server, 3000));
  sandbox.apply(allow({}));
  EXPECT_TRUE(passes(client.socket, at_worker, "and again"));
}

// every mode after every other, no trace of the former.
TEST_F(Update, modes_follow_each_other_without_a_trace) {
  const Fd server = lab::udp_socket(internet.internet_ns, "198.19.1.1:6000");
  const Fd client = lab::udp_socket(guest(), "0.0.0.0:6000");
  for (int round = 0; round < 10; ++round) {
    for (const bool open : {true, false}) {
      sandbox.apply(open ? (round % 2 == 0 ? allow_all() : allow({"198.19.0.0/16"})) : allow({}));
      const std::string text = std::to_string(round) + (open ? " open" : " shut");
      int error = 0;
      (void)lab::receive(client, 0, &error);  // a former refusal
      ASSERT_EQ(lab::send_udp(client, "198.19.1.1:6000", text), 0);
      if (open) {
        EXPECT_EQ(lab::receive(server, 3000), text);
      } else {
        lab::receive(client, 3000, &error);
        EXPECT_NE(error, 0);
        EXPECT_FALSE(lab::readable(server, 0));
      }
    }
  }
}

// The worker learns of the end of a forwarded flow, with its mark.
TEST_F(Update, the_end_of_a_forwarded_flow_is_an_event) {
  sandbox.apply(allow({"198.19.0.0/16"}));
  const Connection connection = connect_to("198.19.1.1:80");
  sandbox.apply(allow({}));
  EXPECT_TRUE(lab::readable(sandbox.worker[7], 3000));
}

// what cannot be loaded leaves everything as it was. (A large policy is one transaction as
// well.)
TEST_F(Update, a_large_policy_is_applied_whole) {
  AddressPolicy policy = allow({});
  for (unsigned i = 0; i < 10000; ++i)
    policy.allowed.push_back(*Cidr::make(Address::v4((198U << 24) + (19U << 16) + i * 4), 31));
  for (unsigned i = 0; i < 2000; ++i)
    policy.allowed.push_back(*Cidr::parse("2001:db8:2:" + std::to_string(i) + "::/64"));
  sandbox.apply(policy);
  const Fd server = lab::udp_socket(internet.internet_ns, "198.19.156.60:7");
  lab::send_udp(lab::udp_socket(guest()), "198.19.156.60:7", "in");
  EXPECT_EQ(lab::receive(server, 3000), "in");
  sandbox.seen();
  lab::send_udp(lab::udp_socket(guest()), "198.19.156.62:7", "out");
  EXPECT_THAT(sandbox.seen(), IsEmpty());
  sandbox.apply(allow({}));
  lab::send_udp(lab::udp_socket(guest()), "198.19.156.60:7", "out");
  EXPECT_THAT(sandbox.seen(), IsEmpty());
}

}  // namespace
}  // namespace sallyport::host
