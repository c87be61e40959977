// SPDX-License-Identifier: Apache-2.0
// What a sandbox sees of DNS: which names get answers, which get a refusal at once, and that no
// denied name goes any further.
#include "firewall/dns_service.h"

#include <gmock/gmock.h>

#include "firewall/dns_fixture.h"

namespace sallyport::firewall {
namespace {

using test::a_record;
using test::cname_record;
using test::Seen;
using test::text;

class DnsServiceTest : public test::DnsServiceFixture {
 protected:
  DnsServiceTest() {
    resolver_.table[{"allowed.example", dns::kA}] = {
        .answers = {a_record("allowed.example", "198.18.0.10")}};
    resolver_.table[{"evil.test", dns::kA}] = {.answers = {a_record("evil.test", "203.0.113.66")}};
    for (int i = 0; i < 42; ++i)
      resolver_.table[{"many.allowed.example", dns::kA}].answers.push_back(
          a_record("many.allowed.example", "198.18.1." + std::to_string(i)));
  }
  void expect_denied(std::string_view name, std::uint16_t type = dns::kA) {
    for (const bool tcp : {false, true}) {
      const Seen seen = tcp ? ask_tcp(name, type) : ask(name, type);
      EXPECT_EQ(seen.rcode(), 3U) << name << " type " << type << (tcp ? " tcp" : " udp");
      EXPECT_EQ(seen.answers(), 0U);
      EXPECT_EQ(seen.authority(), 0U) << "without SOA, so that nobody caches it";
    }
    EXPECT_FALSE(resolver_.asked.contains(std::string(name)));
  }
  void expect_allowed(std::string_view name, std::uint16_t type = dns::kA) {
    EXPECT_EQ(ask(name, type).rcode(), 0U) << name;
    EXPECT_EQ(ask_tcp(name, type).rcode(), 0U) << name;
    EXPECT_GT(resolver_.asked[std::string(name)], 0U);
  }
};

constexpr std::string_view kOneDomain = R"({"allow":["allowed.example","*.allowed.example"]})";

// FW-071, D-04, R-080, R-081
TEST_F(DnsServiceTest, only_names_of_the_domain_list_are_answered) {
  start();
  set_policy(kOneDomain);
  const Seen seen = ask("allowed.example");
  EXPECT_EQ(seen.rcode(), 0U);
  EXPECT_EQ(seen.answers(), 1U);
  EXPECT_EQ(seen.id(), 7U);
  expect_denied("evil.test");
  expect_denied("allowed.example.evil.test");
}

// FW-006, R-081: whatever the reason for which nothing is allowed. R-096: nor before the first
// policy.
TEST_F(DnsServiceTest, no_query_leaves_under_a_policy_that_allows_nothing) {
  start();
  expect_denied("allowed.example");
  for (const std::string_view policy :
       {R"("deny-all")", "{}", R"({"subnets":{"deny":["10.0.0.0/8"]}})"}) {
    set_policy(policy);
    expect_denied("allowed.example");
    expect_denied("data.evil.test", dns::kTxt);
  }
  EXPECT_TRUE(resolver_.asked.empty());
}

// FW-070, D-17
TEST_F(DnsServiceTest, every_name_resolves_with_ranges_only_and_with_allow_all) {
  start();
  set_policy(R"({"subnets":{"allow":["10.0.0.0/8"]}})");
  expect_allowed("evil.test");
  expect_allowed("_dmarc.allowed.example", dns::kTxt);
  set_policy(R"("allow-all")");
  expect_allowed("evil.test");
}

// FW-073, D-17
TEST_F(DnsServiceTest, domains_with_ranges_stay_filtered) {
  start();
  set_policy(R"({"allow":["allowed.example"],"subnets":{"allow":["10.0.0.0/8"]}})");
  expect_allowed("allowed.example");
  expect_denied("evil.test");
}

// FW-072, FW-183, R-083
TEST_F(DnsServiceTest, every_type_is_filtered_alike) {
  start();
  set_policy(kOneDomain);
  for (const auto type : {dns::kA, dns::kAaaa, dns::kTxt, dns::kMx, dns::kSrv, dns::kHttps,
                          dns::kSvcb, dns::kNs, dns::kPtr})
    expect_denied("evil.test", type);
}

// R-087: the firewall's own lookups are not subject to the user's ranges.
TEST_F(DnsServiceTest, denied_ranges_do_not_stop_the_lookup_of_an_allowed_name) {
  start();
  set_policy(R"({"allow":["allowed.example"],
                 "subnets":{"deny":["127.0.0.0/8","10.0.0.0/8","169.254.0.0/16","0.0.0.0/0","::/0"]}})");
  expect_allowed("allowed.example");
}

// R-084
TEST_F(DnsServiceTest, a_cname_chain_is_returned_whole_and_its_targets_gain_nothing) {
  start();
  set_policy(R"({"allow":["allowed.example"]})");
  resolver_.table[{"allowed.example", dns::kA}] = {
      .answers = {cname_record("allowed.example", "x.cdn.test"),
                  cname_record("x.cdn.test", "y.evil.test"),
                  a_record("y.evil.test", "203.0.113.5")}};
  EXPECT_EQ(ask("allowed.example").answers(), 3U);
  expect_denied("x.cdn.test");
  expect_denied("y.evil.test");
  set_policy(R"({"allow":["x.cdn.test"]})");
  const unsigned before = resolver_.asked["allowed.example"];
  EXPECT_EQ(ask("allowed.example").rcode(), 3U);
  EXPECT_EQ(resolver_.asked["allowed.example"], before);
}

// R-083, D-05
TEST_F(DnsServiceTest, ech_is_removed_and_the_rest_of_an_https_record_kept) {
  start();
  set_policy(kOneDomain);
  // priority 1, target ".", alpn=h2, ech=<4 bytes>, ipv4hint
  const std::string alpn("\0\x01\0\x03\x02h2", 7);
  const std::string ech("\0\x05\0\x04\xde\xad\xbe\xef", 8);
  const std::string head("\0\x01\0", 3);
  resolver_.table[{"allowed.example", dns::kHttps}] = {
      .answers = {{"allowed.example", dns::kHttps, 60, head + alpn + ech}}};
  const Seen seen = ask("allowed.example", dns::kHttps);
  EXPECT_EQ(seen.answers(), 1U);
  EXPECT_EQ(seen.bytes.find("\xde\xad\xbe\xef"), std::string::npos);
  EXPECT_NE(seen.bytes.find(alpn), std::string::npos);
}

// R-079
TEST_F(DnsServiceTest, missing_type_missing_name_failure_and_timeout_are_passed_truly) {
  start();
  set_policy(R"({"allow":["*"]})");
  const Seen none = ask("allowed.example", dns::kAaaa);
  EXPECT_EQ(none.rcode(), 0U);
  EXPECT_EQ(none.answers(), 0U);
  EXPECT_EQ(none.authority(), 1U) << "the SOA that NODATA needs";
  resolver_.table[{"missing.example", dns::kA}] = {.rcode = 3,
                                                   .authority = test::no_data("example").authority};
  const Seen missing = ask("missing.example");
  EXPECT_EQ(missing.rcode(), 3U);
  EXPECT_EQ(missing.authority(), 1U);
  resolver_.table[{"broken.example", dns::kA}] = {.rcode = 2};
  EXPECT_EQ(ask("broken.example").rcode(), 2U);
  EXPECT_EQ(ask("silent.example").rcode(), 2U);
}

// R-078
TEST_F(DnsServiceTest, a_long_answer_is_cut_to_the_clients_limit_and_whole_over_tcp) {
  start();
  set_policy(kOneDomain);
  const std::pair<std::optional<unsigned>, std::size_t> limits[] = {
      {std::nullopt, 512}, {512, 512}, {600, 600}, {1232, 1232}, {4096, 1232}, {65535, 1232}};
  for (const auto& [edns, limit] : limits) {
    const Seen seen = ask("many.allowed.example", dns::kA, edns);
    EXPECT_LE(seen.bytes.size(), limit);
    EXPECT_EQ(seen.cut(), seen.answers() < 42) << limit;
  }
  EXPECT_TRUE(ask("many.allowed.example").cut());
  const Seen whole = ask_tcp("many.allowed.example");
  EXPECT_EQ(whole.answers(), 42U);
  EXPECT_FALSE(whole.cut());
}

// D-05
TEST_F(DnsServiceTest, any_and_zone_transfers_are_refused_and_logged) {
  start();
  set_policy(R"("allow-all")");
  for (const auto type : {dns::kAny, dns::kAxfr, dns::kIxfr})
    EXPECT_EQ(ask_tcp("allowed.example", type).rcode(), 5U);
  EXPECT_TRUE(resolver_.asked.empty());
  ASSERT_EQ(lines().size(), 3U);
  EXPECT_EQ(text(lines()[0], "reason"), "dns_query_refused");
  EXPECT_EQ(text(lines()[0], "name"), "allowed.example");
}

TEST_F(DnsServiceTest, a_denied_query_leaves_one_line_and_an_allowed_one_none) {
  start();
  set_policy(kOneDomain);
  ask("allowed.example");
  EXPECT_TRUE(lines().empty());
  ask("evil.test", dns::kTxt);
  ASSERT_EQ(lines().size(), 1U);
  const auto line = lines()[0];
  EXPECT_EQ(text(line, "protocol"), "dns");
  EXPECT_EQ(text(line, "name"), "evil.test");
  EXPECT_EQ(text(line, "verdict"), "deny");
  EXPECT_EQ(text(line, "reason"), "name_not_allowed");
  EXPECT_EQ(text(line, "policy"), "1");
  EXPECT_EQ(text(line, "detail"), "TXT over UDP");
  EXPECT_EQ(text(line, "via"), "worker");
}

TEST_F(DnsServiceTest, repeated_denials_become_a_count) {
  start();
  set_policy(kOneDomain);
  for (int i = 0; i < 50; ++i) ask("evil.test");
  EXPECT_EQ(lines().size(), 1U);
  service_->stop();
  ASSERT_EQ(lines().size(), 2U);
  EXPECT_THAT(text(lines()[1], "detail"), testing::HasSubstr("49 more"));
}

TEST_F(DnsServiceTest, a_tunnel_of_ever_new_names_cannot_fill_the_log) {
  start();
  set_policy(kOneDomain);
  const Fd fd = udp_client();
  for (int i = 0; i < 2000; ++i) {
    send(fd, question("x" + std::to_string(i) + ".evil.test", dns::kTxt));
    EXPECT_EQ(receive(fd).rcode(), 3U);
  }
  service_->stop();
  EXPECT_EQ(lines().size(), 501U);
  EXPECT_THAT(text(lines().back(), "detail"), testing::HasSubstr("1500 more"));
}

// R-025
TEST_F(DnsServiceTest, queries_from_changing_ports_leave_no_state) {
  start();
  set_policy(kOneDomain);
  for (int i = 0; i < 2000; ++i)
    ASSERT_TRUE(ask(i % 2 == 0 ? "evil.test" : "allowed.example").came());
  EXPECT_EQ(service_->stats().udp_queries, 2000U);
  EXPECT_EQ(service_->stats().in_flight, 0U);
}

// R-025
TEST_F(DnsServiceTest, more_lookups_than_the_cap_get_servfail_at_once) {
  start({.max_in_flight = 4});
  set_policy(kOneDomain);
  resolver_.holding = true;
  const Fd fd = udp_client();
  for (std::uint16_t i = 0; i < 5; ++i) send(fd, question("allowed.example", dns::kA, {}, i));
  const Seen fifth = receive(fd);
  EXPECT_EQ(fifth.rcode(), 2U);
  EXPECT_EQ(service_->stats().in_flight, 4U);
  resolver_.release();
  for (int i = 0; i < 4; ++i) EXPECT_EQ(receive(fd).rcode(), 0U);
}

TEST_F(DnsServiceTest, what_is_no_question_gets_no_answer_and_harms_nothing) {
  start();
  set_policy(kOneDomain);
  const Fd fd = udp_client();
  send(fd, "x");
  send(fd, std::string(3000, '\xff'));
  std::string answer = question("allowed.example", dns::kA);
  answer[2] = static_cast<char>(0x80);  // a response
  send(fd, answer);
  send(fd, question("allowed.example", dns::kA, {}, 99));
  EXPECT_EQ(receive(fd).id(), 99U);
}

TEST_F(DnsServiceTest, works_over_ipv6) {
  start({}, "::1");
  set_policy(kOneDomain);
  expect_allowed("allowed.example");
  expect_denied("evil.test");
}

// I4: the answer of a lookup that began under the old policy is judged by the new one.
TEST_F(DnsServiceTest, a_lookup_under_way_is_judged_again_when_the_policy_changed) {
  start();
  set_policy(kOneDomain);
  resolver_.holding = true;
  const Fd fd = udp_client();
  send(fd, question("allowed.example", dns::kA));
  while (resolver_.asked["allowed.example"] == 0) poll();
  set_policy(R"("deny-all")");
  resolver_.release();
  const Seen seen = receive(fd);
  EXPECT_EQ(seen.rcode(), 3U);
  EXPECT_EQ(seen.answers(), 0U);
}

// R-095: between prepare and commit nothing new is decided.
TEST_F(DnsServiceTest, questions_wait_while_an_update_is_prepared) {
  start();
  set_policy(R"("deny-all")");
  prepare(kOneDomain);
  const Fd udp = udp_client();
  const Fd tcp = tcp_client();
  send(udp, question("allowed.example", dns::kA));
  send(tcp, framed(question("allowed.example", dns::kA)));
  for (int i = 0; i < 10; ++i) poll();
  EXPECT_TRUE(resolver_.asked.empty());
  EXPECT_TRUE(lines().empty());
  commit();
  EXPECT_EQ(receive(udp).answers(), 1U);
  EXPECT_EQ(receive_framed(tcp).answers(), 1U);
}

// R-099: each change holds at once, in every direction.
TEST_F(DnsServiceTest, mode_changes_leave_no_trace) {
  start();
  for (int round = 0; round < 5; ++round) {
    set_policy(R"("allow-all")");
    EXPECT_EQ(ask("evil.test").answers(), 1U);
    set_policy(R"("deny-all")");
    EXPECT_EQ(ask("evil.test").rcode(), 3U);
    set_policy(kOneDomain);
    EXPECT_EQ(ask("evil.test").rcode(), 3U);
    EXPECT_EQ(ask("allowed.example").answers(), 1U);
    set_policy(R"({"subnets":{"allow":["10.0.0.0/8"]}})");
    EXPECT_EQ(ask("evil.test").answers(), 1U);
  }
}

}  // namespace
}  // namespace sallyport::firewall
