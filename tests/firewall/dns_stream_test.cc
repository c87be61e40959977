// SPDX-License-Identifier: Apache-2.0
// DNS over TCP as a connection: framing, pipelining, deadlines, caps, and what a policy update does
// to it.
#include "firewall/dns_fixture.h"

namespace sallyport::firewall {
namespace {

using test::a_record;
using test::Seen;

constexpr std::string_view kOneDomain = R"({"allow":["allowed.example","*.allowed.example"]})";

class DnsStreamTest : public test::DnsServiceFixture {
 protected:
  DnsStreamTest() {
    resolver_.table[{"allowed.example", dns::kA}] = {
        .answers = {a_record("allowed.example", "198.18.0.10")}};
  }
  void begin(Options options = {}) {
    start(options);
    set_policy(kOneDomain);
  }
};

TEST_F(DnsStreamTest, answers_a_question_that_comes_byte_by_byte) {
  begin();
  const Fd fd = tcp_client();
  for (const char byte : framed(question("allowed.example", dns::kA))) {
    send(fd, {&byte, 1});
    poll();
  }
  EXPECT_EQ(receive_framed(fd).answers(), 1U);
}

// RFC 7766 s6.2.1.1
TEST_F(DnsStreamTest, answers_pipelined_questions) {
  begin();
  const Fd fd = tcp_client();
  std::string all;
  for (std::uint16_t id = 0; id < 100; ++id)
    all += framed(question(id % 3 == 0 ? "evil.test" : "allowed.example", dns::kA, {}, id));
  send(fd, all);
  std::vector<bool> seen(100);
  for (int i = 0; i < 100; ++i) {
    const Seen answer = receive_framed(fd);
    ASSERT_TRUE(answer.came());
    EXPECT_EQ(answer.rcode(), answer.id() % 3 == 0 ? 3U : 0U);
    EXPECT_FALSE(seen.at(answer.id()));
    seen.at(answer.id()) = true;
  }
}

TEST_F(DnsStreamTest, reads_no_further_while_its_share_of_lookups_is_out) {
  begin({.max_pipelined = 3});
  resolver_.holding = true;
  const Fd fd = tcp_client();
  std::string all;
  for (std::uint16_t id = 0; id < 10; ++id)
    all += framed(question("allowed.example", dns::kA, {}, id));
  send(fd, all);
  while (resolver_.asked["allowed.example"] < 3) poll();
  for (int i = 0; i < 10; ++i) poll();
  EXPECT_EQ(resolver_.asked["allowed.example"], 3U);
  resolver_.release();
  for (int i = 0; i < 10; ++i) EXPECT_EQ(receive_framed(fd).answers(), 1U);
}

TEST_F(DnsStreamTest, answers_after_the_client_shut_down_its_side) {
  begin();
  const Fd fd = tcp_client();
  send(fd, framed(question("allowed.example", dns::kA)));
  ASSERT_EQ(::shutdown(fd.get(), SHUT_WR), 0);
  EXPECT_EQ(receive_framed(fd).answers(), 1U);
  EXPECT_TRUE(ended(fd));
}

// R-100
TEST_F(DnsStreamTest, a_slow_length_ends_at_an_absolute_deadline) {
  begin({.message_deadline = std::chrono::milliseconds(50), .idle = std::chrono::hours(1)});
  const Fd fd = tcp_client();
  send(fd, std::string(1, '\0'));
  EXPECT_TRUE(ended(fd));
}

// R-100: a byte now and then does not extend it.
TEST_F(DnsStreamTest, a_slow_message_ends_though_bytes_keep_coming) {
  begin({.message_deadline = std::chrono::milliseconds(100), .idle = std::chrono::hours(1)});
  const Fd fd = tcp_client();
  send(fd, std::string("\x01\x00", 2));
  const auto start = std::chrono::steady_clock::now();
  bool over = false;
  while (!over && std::chrono::steady_clock::now() < start + std::chrono::seconds(20)) {
    io_.restart();
    io_.run_for(std::chrono::milliseconds(10));
    over = ::send(fd.get(), "x", 1, MSG_NOSIGNAL) < 0;
  }
  EXPECT_TRUE(over);
}

TEST_F(DnsStreamTest, an_idle_connection_ends) {
  begin({.idle = std::chrono::milliseconds(50)});
  const Fd fd = tcp_client();
  EXPECT_TRUE(ended(fd));
}

TEST_F(DnsStreamTest, a_connection_ends_with_its_lifetime_however_busy) {
  begin({.lifetime = std::chrono::milliseconds(150)});
  const Fd fd = tcp_client();
  unsigned answers = 0;
  while (true) {
    const std::string one = framed(question("allowed.example", dns::kA));
    if (::send(fd.get(), one.data(), one.size(), MSG_NOSIGNAL) < 0) break;
    if (!receive_framed(fd).came()) break;
    ++answers;
  }
  EXPECT_GT(answers, 0U);
}

TEST_F(DnsStreamTest, a_client_that_does_not_read_ends) {
  begin({.max_pipelined = 64, .write_deadline = std::chrono::milliseconds(100)});
  for (int i = 0; i < 1000; ++i)
    resolver_.table[{"big.allowed.example", dns::kA}].answers.push_back(
        a_record("big.allowed.example", "198.18.0.1"));
  const Fd fd = tcp_client();
  const std::string one = framed(question("big.allowed.example", dns::kA));
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  do {
    (void)::send(fd.get(), one.data(), one.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    io_.restart();
    io_.run_for(std::chrono::milliseconds(1));
  } while (service_->stats().connections > 0 || service_->stats().tcp_queries == 0
               ? std::chrono::steady_clock::now() < limit
               : false);
  EXPECT_EQ(service_->stats().connections, 0U);
}

TEST_F(DnsStreamTest, a_length_of_zero_or_beyond_any_question_ends_the_connection) {
  begin();
  for (const std::string& length : {std::string("\0\0", 2), std::string("\xff\xff", 2)}) {
    const Fd fd = tcp_client();
    send(fd, length);
    EXPECT_TRUE(ended(fd));
  }
}

TEST_F(DnsStreamTest, connections_are_capped_and_the_cap_is_given_back) {
  begin({.max_connections = 2});
  Fd first = tcp_client();
  const Fd second = tcp_client();
  while (service_->stats().connections < 2) poll();
  const Fd third = tcp_client();
  EXPECT_TRUE(ended(third));
  first.reset();
  while (service_->stats().connections > 1) poll();
  const Fd fourth = tcp_client();
  send(fourth, framed(question("allowed.example", dns::kA)));
  EXPECT_EQ(receive_framed(fourth).answers(), 1U);
}

// R-094, D-15
TEST_F(DnsStreamTest, deny_all_cuts_an_open_connection_before_the_update_returns) {
  begin();
  const Fd fd = tcp_client();
  send(fd, framed(question("allowed.example", dns::kA)));
  EXPECT_EQ(receive_framed(fd).answers(), 1U);
  prepare(R"("deny-all")");
  const auto applied = commit();
  EXPECT_EQ(applied.cut, 1U);
  char byte;
  EXPECT_LT(::recv(fd.get(), &byte, 1, MSG_DONTWAIT), 0);
  EXPECT_EQ(errno, ECONNRESET) << "already, without the loop having run";
}

// R-094, D-15: what is still allowed is not touched.
TEST_F(DnsStreamTest, a_policy_that_allows_any_name_keeps_the_connection) {
  begin();
  const Fd fd = tcp_client();
  send(fd, framed(question("allowed.example", dns::kA)));
  EXPECT_EQ(receive_framed(fd).answers(), 1U);
  prepare(R"({"allow":["other.example"]})");
  const auto applied = commit();
  EXPECT_EQ(applied.kept, 1U);
  EXPECT_EQ(applied.cut, 0U);
  send(fd, framed(question("allowed.example", dns::kA)));
  EXPECT_EQ(receive_framed(fd).rcode(), 3U);
}

TEST_F(DnsStreamTest, a_cut_connection_whose_lookup_returns_later_sends_nothing) {
  begin();
  resolver_.holding = true;
  const Fd fd = tcp_client();
  send(fd, framed(question("allowed.example", dns::kA)));
  while (resolver_.asked["allowed.example"] == 0) poll();
  set_policy(R"("deny-all")");
  resolver_.release();
  for (int i = 0; i < 10; ++i) poll();
  EXPECT_TRUE(ended(fd));
  EXPECT_EQ(service_->stats().connections, 0U);
}

TEST_F(DnsStreamTest, stopping_ends_connections_with_lookups_out) {
  begin();
  resolver_.holding = true;
  const Fd fd = tcp_client();
  send(fd, framed(question("allowed.example", dns::kA)));
  while (resolver_.asked["allowed.example"] == 0) poll();
  service_.reset();
  EXPECT_TRUE(ended(fd));
}

}  // namespace
}  // namespace sallyport::firewall
