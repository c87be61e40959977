// SPDX-License-Identifier: Apache-2.0
// One connection, step by step (ARCHITECTURE.md). A name in these tests is a sentence of
// docs/policy.md.
#include "firewall/session_fixture.h"

namespace sallyport::firewall {
namespace {

using test::text;
using testing::HasSubstr;
using testing::StartsWith;

class Session : public test::SessionFixture {};

// FW-020, FW-077
TEST_F(Session, an_allowed_name_reaches_its_origin_with_every_byte_as_it_was_sent) {
  apply(R"({"allow":["allowed.example"]})");
  connect();
  const std::string bytes = hello("allowed.example");
  ASSERT_TRUE(send_all(guest, bytes));
  ASSERT_TRUE(origin_reached());
  EXPECT_TRUE(receive(upstream, bytes.size()).bytes == bytes);
  ASSERT_TRUE(send_all(upstream, "server hello"));
  upstream.reset();
  EXPECT_EQ(receive(guest).bytes, "server hello");
  guest.reset();
  const auto seen = line();
  EXPECT_EQ(text(seen, "verdict"), "allow");
  EXPECT_EQ(text(seen, "reason"), "allowed_domain");
  EXPECT_EQ(text(seen, "protocol"), "tls");
  EXPECT_EQ(text(seen, "name"), "allowed.example");
  EXPECT_EQ(text(seen, "entry"), "allowed.example");
  EXPECT_EQ(text(seen, "dialled"), origin_listener.endpoint.to_string());
  EXPECT_EQ(text(seen, "bytes_up"), std::to_string(bytes.size()));
  EXPECT_EQ(text(seen, "bytes_down"), "12");
  EXPECT_EQ(gate.connections.used(), 0U);
  EXPECT_EQ(gate.buffered.used(), 0U);
}

// FW-081, R-011, R-012, R-081, D-06
TEST_F(Session, a_denied_name_gets_an_alert_at_once_and_no_lookup) {
  apply(R"({"allow":["allowed.example"]})");
  connect();
  ASSERT_TRUE(send_all(guest, hello("denied.example")));
  const auto got = receive(guest);
  EXPECT_EQ(got.bytes, alert(test::kAccessDenied));
  EXPECT_TRUE(got.finished);
  EXPECT_TRUE(origin_untouched());
  EXPECT_TRUE(resolver.asked.empty());
  EXPECT_EQ(text(line(), "reason"), "name_not_allowed");
  EXPECT_EQ(text(line(), "name"), "denied.example");
}

// R-005
TEST_F(Session, the_case_of_a_name_does_not_matter) {
  apply(R"({"allow":["Allowed.Example"]})");
  connect();
  ASSERT_TRUE(send_all(guest, hello("aLLoWeD.eXaMPLe")));
  ASSERT_TRUE(origin_reached());
  EXPECT_EQ(resolver.asked.count("allowed.example"), 1U);
}

// FW-080, I2, R-013, R-014
TEST_F(Session, the_address_that_the_guest_chose_is_never_dialled_for_a_name) {
  apply(R"({"allow":["allowed.example"]})");
  const auto attacker = test::listen_loopback(64, "198.18.0.66", origin_listener.endpoint.port);
  connect(attacker.endpoint);
  ASSERT_TRUE(send_all(guest, hello("allowed.example")));
  ASSERT_TRUE(origin_reached());
  EXPECT_FALSE(test::accept_now(attacker));
}

// R-015, FW-082, D-07
TEST_F(Session, the_port_is_the_one_that_the_guest_dialled) {
  apply(R"({"allow":["allowed.example"]})");
  connect(Endpoint{*Address::parse("198.18.0.77"), origin_listener.endpoint.port});
  ASSERT_TRUE(send_all(guest, hello("allowed.example")));
  ASSERT_TRUE(origin_reached());
}

// FW-024, FW-182, R-086
TEST_F(Session, a_name_that_leads_to_a_denied_range_is_unreachable) {
  apply(R"({"allow":["allowed.example"],"subnets":{"deny":["198.18.0.1/32"]}})");
  connect(Endpoint{*Address::parse("198.18.0.2"), origin_listener.endpoint.port});
  ASSERT_TRUE(send_all(guest, hello("allowed.example")));
  EXPECT_EQ(receive(guest).bytes, alert(test::kAccessDenied));
  EXPECT_TRUE(origin_untouched());
  EXPECT_EQ(text(line(), "reason"), "denied_range");
  EXPECT_THAT(text(line(), "detail"), HasSubstr("198.18.0.1"));
}

// I7, FW-187, R-086
TEST_F(Session, a_name_that_leads_into_the_boundary_is_unreachable) {
  apply(R"({"allow":["allowed.example"]})");
  close({"198.18.0.1/32"});
  connect(Endpoint{*Address::parse("198.18.0.2"), origin_listener.endpoint.port});
  ASSERT_TRUE(send_all(guest, hello("allowed.example")));
  EXPECT_EQ(receive(guest).bytes, alert(test::kAccessDenied));
  EXPECT_TRUE(origin_untouched());
  EXPECT_EQ(text(line(), "reason"), "boundary");
}

// R-086: of several addresses only those that pass are tried.
TEST_F(Session, a_forbidden_address_among_good_ones_is_left_out) {
  apply(R"({"allow":["allowed.example"]})");
  close({"198.18.0.2/32"});
  resolver.table["allowed.example"] = {"198.18.0.2", "198.18.0.1"};
  connect(Endpoint{*Address::parse("198.18.0.3"), origin_listener.endpoint.port});
  ASSERT_TRUE(send_all(guest, hello("allowed.example")));
  ASSERT_TRUE(origin_reached());
}

// R-020
TEST_F(Session, a_name_that_leads_back_to_the_firewall_is_refused) {
  apply(R"({"allow":["allowed.example"]})");
  room.own = {*Address::parse("198.18.0.1")};
  connect(Endpoint{*Address::parse("198.18.0.2"), origin_listener.endpoint.port});
  ASSERT_TRUE(send_all(guest, hello("allowed.example")));
  EXPECT_EQ(receive(guest).bytes, alert(test::kAccessDenied));
  EXPECT_TRUE(origin_untouched());
}

// R-020
TEST_F(Session, the_firewalls_own_address_is_refused_under_a_catch_all_too) {
  apply(R"({"allow":["*"]})");
  room.own = {*Address::parse("198.18.0.1")};
  connect();
  EXPECT_EQ(receive(guest).error, ECONNRESET);
  EXPECT_TRUE(origin_untouched());
  EXPECT_EQ(text(line(), "reason"), "boundary");
}

// FW-076, R-009: plain HTTP carries no name that counts.
TEST_F(Session, plain_http_gets_a_403_that_says_why) {
  apply(R"({"allow":["allowed.example"]})");
  connect();
  ASSERT_TRUE(send_all(guest, "GET / HTTP/1.1\r\nHost: allowed.example\r\n\r\n"));
  const auto got = receive(guest);
  EXPECT_THAT(got.bytes, StartsWith("HTTP/1.1 403 Forbidden\r\n"));
  EXPECT_THAT(got.bytes, HasSubstr("not_tls"));
  EXPECT_TRUE(got.finished);
  EXPECT_TRUE(origin_untouched());
  EXPECT_EQ(text(line(), "protocol"), "tcp");
}

// FW-083, FW-107, R-009, R-090
TEST_F(Session, bytes_that_are_not_tls_get_an_rst) {
  apply(R"({"allow":["allowed.example"]})");
  for (const std::string& bytes : {std::string("SSH-2.0-x\r\n"), std::string("EHLO x\r\n"),
                                   std::string("\x80\x2e\x01\x03\x01", 5), test::pattern(64, 9)}) {
    connect();
    ASSERT_TRUE(send_all(guest, bytes));
    const auto got = receive(guest);
    EXPECT_EQ(got.bytes, "");
    EXPECT_EQ(got.error, ECONNRESET);
  }
  ASSERT_TRUE(ended(4));
  EXPECT_EQ(text(line(), "reason"), "not_tls");
  EXPECT_TRUE(origin_untouched());
}

// FW-083, R-007
TEST_F(Session, tls_without_a_name_is_denied_where_only_names_are_allowed) {
  apply(R"({"allow":["allowed.example"]})");
  connect();
  ASSERT_TRUE(send_all(guest, test::record(test::Hello().message())));
  EXPECT_EQ(receive(guest).bytes, alert(test::kAccessDenied));
  EXPECT_EQ(text(line(), "reason"), "no_server_name");
  EXPECT_EQ(text(line(), "name"), "null");
}

// FW-084, FW-106, R-007
TEST_F(Session,
       under_a_catch_all_a_connection_without_a_name_passes_unmodified_to_its_own_destination) {
  apply(R"({"allow":["*","other.example"]})");
  connect();
  const std::string bytes = test::record(test::Hello().message());
  ASSERT_TRUE(send_all(guest, bytes));
  ASSERT_TRUE(origin_reached());
  EXPECT_TRUE(receive(upstream, bytes.size()).bytes == bytes);
  EXPECT_TRUE(resolver.asked.empty());
}

// D-08, R-010
TEST_F(Session, under_a_catch_all_a_server_that_speaks_first_is_dialled_without_client_bytes) {
  apply(R"({"allow":["*"]})");
  connect();
  ASSERT_TRUE(origin_reached());
  ASSERT_TRUE(send_all(upstream, "220 ready"));
  EXPECT_EQ(receive(guest, 9).bytes, "220 ready");
}

TEST_F(Session, under_a_catch_all_plain_http_passes) {
  apply(R"({"allow":["*"]})");
  connect();
  ASSERT_TRUE(send_all(guest, "GET / HTTP/1.1\r\n\r\n"));
  ASSERT_TRUE(origin_reached());
  EXPECT_EQ(receive(upstream, 18).bytes, "GET / HTTP/1.1\r\n\r\n");
}

// D-08: denied ranges hold under a catch-all.
TEST_F(Session, under_a_catch_all_a_denied_destination_stays_denied) {
  apply(R"({"allow":["*"],"subnets":{"deny":["198.18.0.0/24"]}})");
  connect();
  ASSERT_TRUE(send_all(guest, "x"));
  EXPECT_EQ(receive(guest).error, ECONNRESET);
  EXPECT_TRUE(origin_untouched());
}

// FW-022, FW-065, FW-068: what the kernel would forward is not looked into here either.
TEST_F(Session, an_allowed_range_passes_whatever_the_name_is) {
  apply(R"({"allow":["allowed.example"],"subnets":{"allow":["198.18.0.0/24"]}})");
  connect();
  ASSERT_TRUE(send_all(guest, hello("denied.example")));
  ASSERT_TRUE(origin_reached());
  EXPECT_TRUE(resolver.asked.empty());
}

// FW-005, FW-060: a client that waits for its server to speak is refused as fast as one that
// speaks.
TEST_F(Session, under_deny_all_a_silent_client_is_refused_after_the_grace) {
  connect();
  EXPECT_EQ(receive(guest).error, ECONNRESET);
  EXPECT_EQ(text(line(), "reason"), "deny_all");
  EXPECT_EQ(text(line(), "policy"), "0");  // no policy yet: fail closed
}

TEST_F(Session, a_name_without_address_ends_the_connection) {
  apply(R"({"allow":["*.example"]})");
  connect();
  ASSERT_TRUE(send_all(guest, hello("nowhere.example")));
  EXPECT_EQ(receive(guest).error, ECONNRESET);
  EXPECT_EQ(text(line(), "reason"), "name_not_found");
  EXPECT_EQ(text(line(), "verdict"), "allow");
}

TEST_F(Session, a_lookup_that_fails_ends_the_connection) {
  apply(R"({"allow":["*.example"]})");
  connect();
  ASSERT_TRUE(send_all(guest, hello("silent.example")));
  EXPECT_EQ(receive(guest).error, ECONNRESET);
  EXPECT_EQ(text(line(), "reason"), "resolve_failed");
}

TEST_F(Session, an_origin_that_refuses_is_a_reset_for_the_guest) {
  apply(R"({"allow":["allowed.example"]})");
  origin_listener.fd.reset();
  connect();
  ASSERT_TRUE(send_all(guest, hello("allowed.example")));
  EXPECT_EQ(receive(guest).error, ECONNRESET);
  EXPECT_EQ(text(line(), "reason"), "upstream_unreachable");
  EXPECT_THAT(text(line(), "detail"), HasSubstr("refused"));
}

// ---- live update

// R-094, I4, D-15, FW-013
TEST_F(Session, an_open_connection_that_a_new_policy_denies_is_cut_before_the_update_returns) {
  apply(R"({"allow":["allowed.example"]})");
  connect();
  ASSERT_TRUE(send_all(guest, hello("allowed.example")));
  ASSERT_TRUE(origin_reached());
  ASSERT_EQ(receive(upstream, 5).bytes.size(), 5U);
  const auto applied = apply(R"("deny-all")");
  EXPECT_EQ(applied.cut, 1U);
  EXPECT_EQ(applied.kept, 0U);
  // Not one turn of the loop has run since.
  char byte = 0;
  std::string drained(4096, '\0');
  while (::recv(upstream.get(), drained.data(), drained.size(), 0) > 0) {
  }
  EXPECT_EQ(errno, ECONNRESET);
  EXPECT_EQ(::recv(guest.get(), &byte, 1, 0), -1);
  EXPECT_EQ(errno, ECONNRESET);
  EXPECT_EQ(text(line(), "verdict"), "deny");
  EXPECT_EQ(text(line(), "reason"), "deny_all");
  EXPECT_THAT(text(line(), "detail"), HasSubstr("cut by policy version 2"));
}

// R-094, D-15
TEST_F(Session, an_open_connection_that_a_new_policy_still_allows_is_not_touched) {
  apply(R"({"allow":["allowed.example"]})");
  connect();
  ASSERT_TRUE(send_all(guest, hello("allowed.example")));
  ASSERT_TRUE(origin_reached());
  const auto applied = apply(R"({"allow":["*.example"]})");
  EXPECT_EQ(applied.kept, 1U);
  EXPECT_EQ(applied.cut, 0U);
  ASSERT_TRUE(send_all(upstream, "still here"));
  EXPECT_EQ(receive(guest, 10).bytes, "still here");
}

// R-094: the name stays allowed, its address does not.
TEST_F(Session, an_open_connection_into_a_range_that_is_now_denied_is_cut) {
  apply(R"({"allow":["allowed.example"]})");
  connect(Endpoint{*Address::parse("198.18.0.2"), origin_listener.endpoint.port});
  ASSERT_TRUE(send_all(guest, hello("allowed.example")));
  ASSERT_TRUE(origin_reached());
  EXPECT_EQ(apply(R"({"allow":["allowed.example"],"subnets":{"deny":["198.18.0.1/32"]}})").cut, 1U);
}

// R-094: an attempt to connect is under way when its address becomes denied; it must not go on
// trying.
TEST_F(Session, a_connection_that_is_being_dialled_into_a_range_that_is_now_denied_is_cut) {
  apply(R"({"allow":["allowed.example"]})");
  const test::LoopbackListener full = test::listen_loopback(0, "198.18.0.1");
  const Fd first = test::connect_loopback(
      full.endpoint);  // fills the accept queue: who comes now gets no answer
  connect(Endpoint{*Address::parse("198.18.0.2"), full.endpoint.port});
  ASSERT_TRUE(send_all(guest, hello("allowed.example")));
  ASSERT_TRUE(until([&] { return resolver.asked["allowed.example"] == 1; }));
  io.restart();
  io.poll();
  EXPECT_EQ(apply(R"({"allow":["allowed.example"],"subnets":{"deny":["198.18.0.1/32"]}})").cut, 1U);
  EXPECT_EQ(receive(guest).error, ECONNRESET);
  ASSERT_TRUE(ended());
  EXPECT_EQ(line()["reason"], "denied_range");
  EXPECT_TRUE(line()["dialled"].is_null());
}

TEST_F(Session, a_connection_that_the_end_of_the_sandbox_ends_was_allowed_and_says_so) {
  apply(R"({"allow":["allowed.example"]})");
  connect();
  ASSERT_TRUE(send_all(guest, hello("allowed.example")));
  ASSERT_TRUE(origin_reached());
  gate.close();
  EXPECT_EQ(receive(guest).error, ECONNRESET);
  EXPECT_EQ(line()["verdict"], "allow");
  EXPECT_EQ(line()["reason"], "allowed_domain");
  EXPECT_EQ(line()["detail"], "the sandbox stopped");
}

TEST_F(Session, a_connection_that_ends_undecided_with_the_sandbox_leaves_its_line) {
  apply(R"({"allow":["allowed.example"]})");
  connect();
  io.restart();
  io.poll();
  gate.close();
  EXPECT_EQ(line()["verdict"], "deny");
  EXPECT_EQ(line()["reason"], "sandbox_stopped");
}

// I2: it was admitted by its address and brought a name that was never checked against that
// address.
TEST_F(Session, a_connection_admitted_by_range_is_cut_when_only_its_name_is_allowed) {
  apply(R"({"subnets":{"allow":["198.18.0.0/24"]}})");
  connect();
  ASSERT_TRUE(origin_reached());
  EXPECT_EQ(apply(R"({"allow":["allowed.example"]})").cut, 1U);
}

TEST_F(Session, a_connection_that_waits_for_a_lookup_is_cut_too) {
  apply(R"({"allow":["allowed.example"]})");
  resolver.holding = true;
  connect();
  ASSERT_TRUE(send_all(guest, hello("allowed.example")));
  ASSERT_TRUE(until([&] { return resolver.asked["allowed.example"] == 1; }));
  EXPECT_EQ(apply(R"("deny-all")").cut, 1U);
  EXPECT_EQ(receive(guest).error, ECONNRESET);
  resolver.release();
  ASSERT_TRUE(ended());
  EXPECT_TRUE(origin_untouched());
}

// R-095: new flows wait between prepare and commit, and then obey the new policy.
TEST_F(Session, a_connection_that_comes_during_an_update_is_judged_by_the_new_policy) {
  apply(R"({"allow":["other.example"]})");
  gate.prepare(2, *policy::parse_policy(R"({"allow":["allowed.example"]})"));
  connect();
  ASSERT_TRUE(send_all(guest, hello("allowed.example")));
  io.restart();
  io.run_for(std::chrono::milliseconds(20));
  EXPECT_TRUE(egress.lines().empty());
  ASSERT_TRUE(gate.commit(2));
  ASSERT_TRUE(origin_reached());
}

// R-095
TEST_F(Session, an_update_that_is_aborted_leaves_the_old_policy) {
  apply(R"({"allow":["allowed.example"]})");
  gate.prepare(2, policy::deny_all());
  connect();
  ASSERT_TRUE(send_all(guest, hello("allowed.example")));
  ASSERT_TRUE(gate.abort(2));
  ASSERT_TRUE(origin_reached());
}

// ---- bounds

// R-100
TEST_F(Session, a_hello_that_never_ends_is_refused_at_an_absolute_deadline) {
  apply(R"({"allow":["allowed.example"]})");
  room.limits.opening.deadline = std::chrono::milliseconds(50);
  connect();
  const std::string bytes = hello("allowed.example");
  // A byte now and then does not move the deadline.
  for (std::size_t at = 0; at < bytes.size() && egress.lines().empty(); ++at) {
    (void)::send(guest.get(), bytes.data() + at, 1, MSG_NOSIGNAL);
    io.restart();
    io.run_for(std::chrono::milliseconds(5));
  }
  EXPECT_EQ(receive(guest).error, ECONNRESET);
  EXPECT_EQ(text(line(), "reason"), "hello_timeout");
  EXPECT_TRUE(origin_untouched());
}

// R-004
TEST_F(Session, a_hello_beyond_the_limit_is_refused_on_its_declared_length) {
  apply(R"({"allow":["allowed.example"]})");
  connect();
  ASSERT_TRUE(send_all(guest, std::string("\x16\x03\x01\x40\x00\x01\x03\x0d\x40", 9)));  // 200 KB
  EXPECT_THAT(receive(guest).bytes, StartsWith("\x15"));
  EXPECT_EQ(text(line(), "reason"), "malformed_hello");
}

TEST_F(Session, a_hello_for_which_there_is_no_room_is_refused) {
  apply(R"({"allow":["allowed.example"]})");
  gate.buffered.set_limit(100);
  connect();
  ASSERT_TRUE(send_all(guest, hello("allowed.example")));
  EXPECT_EQ(receive(guest).error, ECONNRESET);
  EXPECT_EQ(text(line(), "reason"), "buffer_limit");
  EXPECT_EQ(gate.buffered.used(), 0U);
}

// R-009
TEST_F(Session, a_client_that_leaves_in_the_middle_of_its_hello_leaves_nothing_behind) {
  apply(R"({"allow":["allowed.example"]})");
  connect();
  ASSERT_TRUE(send_all(guest, std::string("\x16\x03\x01", 3)));
  guest.reset();
  EXPECT_EQ(text(line(), "reason"), "client_closed");
  ASSERT_TRUE(until([&] { return gate.connections.used() == 0 && gate.buffered.used() == 0; }));
}

// R-006
TEST_F(Session, a_hello_that_could_be_read_in_two_ways_is_refused) {
  apply(R"({"allow":["allowed.example"]})");
  connect();
  const std::string two =
      test::with_u16(test::sni_entry("allowed.example") + test::sni_entry("denied.example"));
  ASSERT_TRUE(send_all(guest, test::record(test::Hello().extension(0, two).message())));
  EXPECT_EQ(receive(guest).bytes,
            std::string("\x15\x03\x01\x00\x02\x02\x2f", 7));  // illegal_parameter
  EXPECT_TRUE(origin_untouched());
}

// R-001 (c): the verdict is the same wherever the hello is cut, and every byte arrives in order.
TEST_F(Session, a_hello_cut_anywhere_gets_the_same_verdict) {
  apply(R"({"allow":["allowed.example"]})");
  const std::string allowed = hello("allowed.example");
  const std::string denied = hello("denied.example");
  for (std::size_t cut = 1; cut < allowed.size(); ++cut) {
    connect();
    ASSERT_TRUE(send_all(guest, allowed.substr(0, cut)));
    io.restart();
    io.poll();
    ASSERT_TRUE(send_all(guest, allowed.substr(cut)));
    ASSERT_TRUE(origin_reached()) << "cut at " << cut;
    ASSERT_TRUE(receive(upstream, allowed.size()).bytes == allowed) << "cut at " << cut;
    guest.reset();
    upstream.reset();
  }
  for (std::size_t cut = 1; cut < denied.size(); ++cut) {
    connect();
    ASSERT_TRUE(send_all(guest, denied.substr(0, cut)));
    io.restart();
    io.poll();
    ASSERT_TRUE(send_all(guest, denied.substr(cut)));
    ASSERT_EQ(receive(guest).bytes, alert(test::kAccessDenied)) << "cut at " << cut;
  }
}

}  // namespace
}  // namespace sallyport::firewall
