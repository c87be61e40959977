// SPDX-License-Identifier: Apache-2.0
// What a guest may ask, and what it hears when it may not.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "dns/message.h"
#include "support/dns_bytes.h"
#include "support/exact.h"

namespace sallyport::dns {
namespace {

using namespace std::string_literals;
using test::Exact;
using test::hex;
using test::u16;

const std::string kName =
    "\x03"
    "api\x07"
    "Example\x03"
    "COM\x00"s;
const std::string kPlain = hex("1234 0100 0001 0000 0000 0000") + kName + hex("0001 0001");
std::string opt(std::size_t size, const std::string& ttl = hex("0000 0000"),
                const std::string& options = {}) {
  return "\0"s + u16(41) + u16(size) + ttl + u16(options.size()) + options;
}
std::string with_additional(const std::string& query, const std::string& record) {
  std::string out = query + record;
  out[11] = 1;
  return out;
}
std::string question(const std::string& name, std::size_t type, std::size_t klass = 1) {
  return hex("1234 0100 0001 0000 0000 0000") + name + u16(type) + u16(klass);
}

Query query(std::string_view bytes) {
  auto parsed = parse_query(Exact(bytes));
  EXPECT_TRUE(parsed) << (parsed ? "" : parsed.error().why);
  return parsed.value_or(Query{});
}
void expect_refused(std::string_view bytes, Rcode rcode, std::string_view why) {
  const auto parsed = parse_query(Exact(bytes));
  ASSERT_FALSE(parsed) << why;
  EXPECT_EQ(parsed.error().why, why);
  EXPECT_EQ(parsed.error().rcode, rcode) << why;
  const std::string& answer = parsed.error().answer;
  ASSERT_GE(answer.size(), 12U);
  EXPECT_EQ(answer.substr(0, 2), bytes.substr(0, 2));
  EXPECT_EQ(answer[2] & 0x80, 0x80);
  EXPECT_EQ(answer[3] & 0x0f, static_cast<int>(rcode) & 0x0f);
}
void expect_silence(std::string_view bytes) {
  const auto parsed = parse_query(Exact(bytes));
  ASSERT_FALSE(parsed);
  EXPECT_EQ(parsed.error().answer, "");
}

// FW-071, FW-072
TEST(DnsQuery, a_plain_query_is_read) {
  const Query q = query(kPlain);
  EXPECT_EQ(q.id, 0x1234);
  EXPECT_TRUE(q.recursion_desired);
  EXPECT_EQ(q.type, kA);
  EXPECT_EQ(q.name, "api.example.com");
  EXPECT_EQ(q.host_name, "api.example.com");
  EXPECT_EQ(q.question, kName + hex("0001 0001"));
  EXPECT_FALSE(q.edns);
  EXPECT_EQ(q.udp_limit(), 512U);
}

//
TEST(DnsQuery, edns_says_how_much_fits) {
  for (const auto& [size, limit] :
       {std::pair{0, 512}, {512, 512}, {1000, 1000}, {1232, 1232}, {4096, 1232}, {65535, 1232}}) {
    const Query q = query(with_additional(kPlain, opt(size)));
    ASSERT_TRUE(q.edns);
    EXPECT_EQ(q.udp_limit(), static_cast<std::size_t>(limit));
    EXPECT_FALSE(q.edns->dnssec_ok);
  }
  EXPECT_TRUE(query(with_additional(kPlain, opt(1232, hex("0000 8000"), hex("000a 0002 abcd"))))
                  .edns->dnssec_ok);
}

TEST(DnsQuery, every_truncation_is_answered_or_ignored_but_never_read) {
  const std::string bytes =
      with_additional(kPlain, opt(1232, hex("00000000"), hex("000a 0002 abcd")));
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    const auto parsed = parse_query(Exact(std::string_view(bytes).substr(0, size)));
    ASSERT_FALSE(parsed) << size;
    EXPECT_EQ(parsed.error().answer.empty(), size < 12) << size;
    EXPECT_EQ(parsed.error().rcode, Rcode::formerr) << size;
  }
  expect_refused(bytes + "x", Rcode::formerr, "bytes behind the query");
}

TEST(DnsQuery, answers_are_met_with_silence) {
  std::string answer = kPlain;
  answer[2] = static_cast<char>(0x81);
  expect_silence(answer);
  expect_silence(kPlain.substr(0, 11));
  expect_silence("");
}

TEST(DnsQuery, only_one_question_and_one_opt_are_taken) {
  const auto changed = [](std::size_t at, char value) {
    std::string out = kPlain;
    out[at] = value;
    return out;
  };
  expect_refused(changed(5, 0), Rcode::formerr, "not exactly one question");
  expect_refused(changed(5, 2) + kName + hex("0001 0001"), Rcode::formerr,
                 "not exactly one question");
  expect_refused(changed(7, 1), Rcode::formerr, "records other than OPT in a query");
  expect_refused(changed(9, 1), Rcode::formerr, "records other than OPT in a query");
  expect_refused(changed(11, 2) + opt(512) + opt(512), Rcode::formerr,
                 "records other than OPT in a query");
  expect_refused(with_additional(kPlain, hex("00 0010 0001 00000000 0000")), Rcode::formerr,
                 "record other than OPT in a query");
  expect_refused(with_additional(kPlain, hex("c00c 0029 0200 00000000 0000")), Rcode::formerr,
                 "record other than OPT in a query");
  expect_refused(with_additional(kPlain, opt(512, hex("00000000"), hex("000a 0003 abcd"))),
                 Rcode::formerr, "malformed EDNS option");
  expect_refused(with_additional(kPlain, opt(512, hex("0001 0000"))), Rcode::badvers,
                 "EDNS version over 0");
}

TEST(DnsQuery, other_opcodes_and_classes_are_not_served) {
  for (const int opcode : {1, 2, 4, 5, 15}) {
    std::string bytes = kPlain;
    bytes[2] = static_cast<char>(opcode << 3);
    expect_refused(bytes, Rcode::notimp, "opcode is not QUERY");
  }
  expect_refused(question("\x07version\x04"
                          "bind\x00"s,
                          16, 3),
                 Rcode::refused, "class is not IN");
  expect_refused(question(kName, 1, 255), Rcode::refused, "class is not IN");
}

// D-05
TEST(DnsQuery, any_and_zone_transfers_are_refused) {
  for (const int type : {0, 41, 128, 249, 250, 251, 252, 253, 254, 255}) {
    expect_refused(question(kName, type), Rcode::refused, "ANY, a zone transfer or a meta type");
  }
  for (const int type : {1, 2, 16, 28, 64, 65, 99, 256, 257, 65280})
    EXPECT_EQ(query(question(kName, type)).type, type);
}

TEST(DnsQuery, malformed_names_are_refused) {
  expect_refused(question(hex("c00c"), 1), Rcode::formerr, "malformed question");
  expect_refused(question("\x03"
                          "api" +
                              hex("c00c"),
                          1),
                 Rcode::formerr, "malformed question");
  expect_refused(question(hex("40") + std::string(64, 'a') + "\0"s, 1), Rcode::formerr,
                 "malformed question");
  expect_refused(question(hex("80 00"), 1), Rcode::formerr, "malformed question");
  const std::string label = "\x3f" + std::string(63, 'a');
  EXPECT_EQ(
      query(question(label + label + label + "\x3d" + std::string(61, 'b') + "\0"s, 1)).name.size(),
      253U);
  expect_refused(question(label + label + label + "\x3e" + std::string(62, 'b') + "\0"s, 1),
                 Rcode::formerr, "malformed question");
}

// D-03: names that are no host names are told apart, so that they are denied wherever names are
// restricted.
TEST(DnsQuery, odd_names_have_no_host_name) {
  const Query root = query(question("\0"s, 2));
  EXPECT_EQ(root.name, ".");
  EXPECT_FALSE(root.host_name);
  const Query dotted =
      query(question("\x0b"
                     "api.example\x03"
                     "com\x00"s,
                     1));
  EXPECT_EQ(dotted.name, "api\\046example.com");
  EXPECT_FALSE(dotted.host_name);
  const Query odd =
      query(question("\x03"
                     "a\0\xff\x03"
                     "com\x00"s,
                     1));
  EXPECT_EQ(odd.name, "a\\000\\255.com");
  EXPECT_FALSE(odd.host_name);
  EXPECT_FALSE(query(question("\x01*\x03"
                              "com\x00"s,
                              1))
                   .host_name);
  EXPECT_TRUE(query(question("\x06_dmarc\x03"
                             "com\x00"s,
                             16))
                  .host_name);
}

// D-04, R-080
TEST(DnsDenied, is_nxdomain_without_soa_and_keeps_the_question) {
  const Query q = query(kPlain);
  EXPECT_EQ(render_denied(q), hex("1234 8183 0001 0000 0000 0000") + kName + hex("0001 0001"));
}

// D-04
TEST(DnsDenied, says_blocked_to_clients_that_speak_edns) {
  const Query q = query(with_additional(kPlain, opt(4096, hex("0000 8000"))));
  EXPECT_EQ(render_denied(q, "no"), hex("1234 8183 0001 0000 0000 0001") + kName +
                                        hex("0001 0001") +
                                        hex("00 0029 04d0 0000 8000 0008  000f 0004 000f") + "no");
  EXPECT_LE(render_denied(q, std::string(5000, 'x')).size(), 512U);
}

// truly passed on.
TEST(DnsFailure, carries_the_rcode_and_nothing_else) {
  EXPECT_EQ(render_failure(query(kPlain), Rcode::servfail),
            hex("1234 8182 0001 0000 0000 0000") + kName + hex("0001 0001"));
  EXPECT_EQ(render_failure(query(with_additional(kPlain, opt(512))), Rcode::noerror),
            hex("1234 8180 0001 0000 0000 0001") + kName + hex("0001 0001") +
                hex("00 0029 04d0 0000 0000 0000"));
}

TEST(DnsFailure, badvers_is_split_over_header_and_opt) {
  const auto parsed = parse_query(Exact(with_additional(kPlain, opt(512, hex("0005 0000")))));
  ASSERT_FALSE(parsed);
  EXPECT_TRUE(parsed.error().answer.ends_with(hex("00 0029 04d0 0100 0000 0000")));
}

TEST(DnsQuery, what_is_rendered_is_read_back) {
  for (const auto* name : {"a.example", "allowed.example.", "_x._tcp.example"}) {
    const auto bytes = render_query(7, name, kHttps, Edns{1400, true});
    ASSERT_TRUE(bytes);
    const Query q = query(*bytes);
    EXPECT_EQ(q.name + ".", std::string(name) + (std::string_view(name).ends_with('.') ? "" : "."));
    EXPECT_EQ(q.type, kHttps);
    EXPECT_EQ(q.edns->udp_size, 1400);
  }
  EXPECT_FALSE(render_query(7, "a..b", kA));
  EXPECT_FALSE(render_query(7, std::string(64, 'a'), kA));
}

TEST(DnsType, has_a_name_for_the_log) {
  EXPECT_EQ(type_name(kHttps), "HTTPS");
  EXPECT_EQ(type_name(4711), "TYPE4711");
}

}  // namespace
}  // namespace sallyport::dns
