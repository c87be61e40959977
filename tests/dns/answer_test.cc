// SPDX-License-Identifier: Apache-2.0
// An upstream's answer on its way to the guest, read back by ldns.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "dns/ldns_reader.h"
#include "dns/message.h"
#include "support/dns_bytes.h"
#include "support/exact.h"

namespace sallyport::dns {
namespace {

using namespace std::string_literals;
using test::dns_name;
using test::dns_record;
using test::DnsAnswer;
using test::Exact;
using test::hex;
using test::u16;
using test::with_u16;
using testing::ElementsAre;
using testing::IsEmpty;

constexpr std::uint16_t kNaptr = 35;
const std::string kOwner = hex("c00c");

Query ask(std::string_view name, std::uint16_t type, std::optional<Edns> edns = std::nullopt) {
  auto query = parse_query(Exact(*render_query(0x4242, name, type, edns)));
  EXPECT_TRUE(query);
  return *query;
}
LdnsView prepared(const Query& query, const std::string& upstream,
                  std::size_t limit = kMaxMessage) {
  const auto answer = prepare_answer(query, Exact(upstream), limit);
  EXPECT_TRUE(answer) << (answer ? "" : answer.error().message);
  EXPECT_LE(answer.value_or("").size(), limit);
  const auto view = read_with_ldns(as_bytes(*answer));
  EXPECT_TRUE(view);
  return view.value_or(LdnsView{});
}
std::string a_record(unsigned last) {
  return dns_record(kOwner, kA, 300, hex("c612 00") + test::u8(last));
}
DnsAnswer many(std::string name, unsigned count) {
  DnsAnswer out{.name = std::move(name)};
  for (unsigned i = 1; i <= count; ++i) out.answer(a_record(i));
  return out;
}

// D-05
TEST(DnsAnswer, gets_the_id_and_the_question_as_the_client_wrote_it) {
  const Query query = ask("ApI.ExAmPlE", kA);
  const auto answer = prepare_answer(query, Exact(many("api.example", 1).bytes()), 512);
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->substr(0, 12), hex("4242 8180 0001 0001 0000 0000"));
  EXPECT_EQ(answer->substr(12, query.question.size()), query.question);
  EXPECT_THAT(prepared(query, many("api.example", 2).bytes()).answers,
              ElementsAre("api.example.\t300\tin\ta\t198.18.0.1\n",
                          "api.example.\t300\tin\ta\t198.18.0.2\n"));
}

// D-05, R-084
TEST(DnsAnswer, keeps_the_whole_cname_chain) {
  // The second CNAME's owner is a pointer into the first one's RDATA, as servers write it.
  const std::string first = dns_record(kOwner, kCname, 60, dns_name("x.cdn.test"));
  const std::size_t target_at = 12 + dns_name("allowed.example").size() + 4 + 12;
  const std::string to_target = u16(0xc000 | target_at);
  const DnsAnswer upstream =
      DnsAnswer{.name = "allowed.example"}
          .answer(first)
          .answer(dns_record(to_target, kCname, 30, dns_name("y.evil.test")))
          .answer(dns_record(dns_name("y.evil.test"), kA, 20, hex("c612 0005")));
  EXPECT_THAT(prepared(ask("allowed.example", kA), upstream.bytes()).answers,
              ElementsAre("allowed.example.\t60\tin\tcname\tx.cdn.test.\n",
                          "x.cdn.test.\t30\tin\tcname\ty.evil.test.\n",
                          "y.evil.test.\t20\tin\ta\t198.18.0.5\n"));
  const auto found = addresses(Exact(upstream.bytes()));
  ASSERT_TRUE(found);
  EXPECT_THAT(found->addresses, ElementsAre(*Address::parse("198.18.0.5")));
  EXPECT_EQ(found->ttl, 20U);
}

//
TEST(DnsAnswer, keeps_rcode_and_soa_of_negative_answers) {
  const std::string soa = dns_record(kOwner, kSoa, 900,
                                     dns_name("ns.example") + dns_name("root.example") +
                                         hex("00000001 00000e10 00000384 00093a80 0000003c"));
  const LdnsView nodata =
      prepared(ask("a.example", kAaaa),
               DnsAnswer{.name = "a.example", .type = kAaaa}.more_authority(soa).bytes());
  EXPECT_EQ(nodata.rcode, 0);
  EXPECT_THAT(
      nodata.authority,
      ElementsAre("a.example.\t900\tin\tsoa\tns.example. root.example. 1 3600 900 604800 60\n"));
  DnsAnswer nxdomain{.name = "a.example", .type = kAaaa, .flags = 0x8183};
  EXPECT_EQ(prepared(ask("a.example", kAaaa), nxdomain.more_authority(soa).bytes()).rcode, 3);
  EXPECT_EQ(prepared(ask("a.example", kAaaa),
                     DnsAnswer{.name = "a.example", .type = kAaaa, .flags = 0x8182}.bytes())
                .rcode,
            2);
}

//
TEST(DnsAnswer, is_cut_to_the_clients_limit_with_tc) {
  const std::string upstream = many("many.example", 42).bytes();
  const auto at_limit = [&](const Query& query) {
    return prepared(query, upstream, query.udp_limit());
  };
  const LdnsView plain = at_limit(ask("many.example", kA));
  EXPECT_TRUE(plain.truncated);
  EXPECT_EQ(plain.answers.size(),
            (512U - 12 - 18) / 16);  // what fits is there, for stubs without TCP
  EXPECT_FALSE(plain.edns);
  const LdnsView small = at_limit(ask("many.example", kA, Edns{512, false}));
  EXPECT_TRUE(small.truncated);
  EXPECT_TRUE(small.edns);
  for (const std::uint16_t size : std::initializer_list<std::uint16_t>{1232, 4096, 65535}) {
    const LdnsView whole = at_limit(ask("many.example", kA, Edns{size, false}));
    EXPECT_FALSE(whole.truncated);
    EXPECT_EQ(whole.answers.size(), 42U);
  }
  EXPECT_EQ(prepared(ask("many.example", kA), upstream, kMaxMessage).answers.size(),
            42U);  // over TCP
}

// every limit is kept, down to the least one.
TEST(DnsAnswer, never_exceeds_the_limit) {
  const std::string upstream = many("many.example", 250).bytes();
  for (std::size_t limit = 512; limit < 4200; ++limit) {
    const auto answer =
        prepare_answer(ask("many.example", kA, Edns{1232, true}), Exact(upstream), limit);
    ASSERT_TRUE(answer);
    ASSERT_LE(answer->size(), limit);
  }
}

TEST(DnsAnswer, missing_additional_records_need_no_tc) {
  DnsAnswer upstream = many("a.example", 1);
  for (int i = 0; i < 60; ++i)
    upstream.more(
        dns_record(dns_name("ns" + std::to_string(i) + ".example"), kA, 1, hex("c6120001")));
  const LdnsView view = prepared(ask("a.example", kA), upstream.bytes(), 512);
  EXPECT_FALSE(view.truncated);
  EXPECT_EQ(view.answers.size(), 1U);
}

TEST(DnsAnswer, opt_is_ours_and_only_for_clients_that_sent_one) {
  DnsAnswer upstream = many("a.example", 1);
  upstream.more(hex("00 0029 1000 0000 8000 0006  0008 0002 abcd"));
  EXPECT_FALSE(prepared(ask("a.example", kA), upstream.bytes()).edns);
  const LdnsView view = prepared(ask("a.example", kA, Edns{4096, false}), upstream.bytes());
  EXPECT_TRUE(view.edns);
  EXPECT_EQ(view.udp_size, kUdpLimit);
}

TEST(DnsAnswer, upper_bits_of_the_rcode_need_edns) {
  DnsAnswer upstream{.name = "a.example", .flags = 0x8187};
  upstream.more(hex("00 0029 1000 0100 0000 0000"));  // 16 + 7: BADCOOKIE
  EXPECT_EQ(prepared(ask("a.example", kA), upstream.bytes()).rcode, 2);
  const auto with_edns = prepare_answer(ask("a.example", kA, Edns{}), Exact(upstream.bytes()), 512);
  ASSERT_TRUE(with_edns);
  EXPECT_TRUE(with_edns->ends_with(hex("00 0029 04d0 0100 0000 0000")));
}

TEST(DnsAnswer, proof_is_passed_only_to_those_who_ask) {
  DnsAnswer upstream = many("a.example", 1);
  upstream.flags |= 0x20;
  const auto flags = [&](const Query& query) {
    return static_cast<unsigned char>((*prepare_answer(query, Exact(upstream.bytes()), 512))[3]);
  };
  EXPECT_EQ(flags(ask("a.example", kA)) & 0x20, 0);
  EXPECT_EQ(flags(ask("a.example", kA, Edns{1232, true})) & 0x20, 0x20);
}

// R-083, D-05
std::string https(const std::string& params) {
  return dns_record(kOwner, kHttps, 60, hex("0001 00") + params);
}
std::string param(std::size_t key, const std::string& value) { return u16(key) + with_u16(value); }
std::vector<std::string> https_answers(const std::string& params) {
  return prepared(ask("a.example", kHttps),
                  DnsAnswer{.name = "a.example", .type = kHttps}.answer(https(params)).bytes())
      .answers;
}

// R-083, D-05
TEST(DnsHttps, ech_is_removed_and_the_rest_kept) {
  const std::string alpn = param(1, "\x02h3\x02h2");
  const std::string port = param(3, u16(8443));
  const std::string hint = param(4, hex("c6120001"));
  EXPECT_EQ(https_answers(alpn + port + hint + param(5, "config")),
            https_answers(alpn + port + hint));
  EXPECT_EQ(https_answers(alpn + param(5, "config") + param(6, std::string(16, 'x'))),
            https_answers(alpn + param(6, std::string(16, 'x'))));
  EXPECT_EQ(https_answers(param(5, "")), https_answers(""));
  EXPECT_EQ(https_answers("").size(), 1U);
}

//
TEST(DnsHttps, ech_is_no_longer_mandatory) {
  const std::string alpn = param(1, "\x02h2");
  EXPECT_EQ(https_answers(param(0, u16(1) + u16(5)) + alpn + param(5, "config")),
            https_answers(param(0, u16(1)) + alpn));
  EXPECT_EQ(https_answers(param(0, u16(5)) + alpn + param(5, "config")), https_answers(alpn));
}

// what cannot be read may hide ech.
TEST(DnsHttps, malformed_records_are_dropped) {
  const std::string alpn = param(1, "\x02h2");
  for (const auto& params : {alpn + u16(5), alpn + u16(5) + u16(9) + "x", param(5, "a") + alpn,
                             alpn + alpn, param(0, "a"), param(0, ""), "x"s}) {
    EXPECT_THAT(https_answers(params), IsEmpty());
  }
  for (const auto& data : {""s, hex("0001"), hex("0001 40"), hex("0001 c00c"), hex("0001 0361")}) {
    const auto record = dns_record(kOwner, kHttps, 60, data);
    EXPECT_THAT(prepared(ask("a.example", kHttps),
                         DnsAnswer{.name = "a.example", .type = kHttps}.answer(record).bytes())
                    .answers,
                IsEmpty());
  }
}

// the alias is passed on; it gains nothing, because names are judged when they are asked or
// dialled.
TEST(DnsHttps, alias_mode_is_kept) {
  const auto record = dns_record(kOwner, kHttps, 60, hex("0000") + dns_name("other.test"));
  const DnsAnswer upstream = DnsAnswer{.name = "a.example", .type = kHttps}.answer(record);
  EXPECT_EQ(prepared(ask("a.example", kHttps), upstream.bytes()).answers.size(), 1U);
}

// pointers behind the shortened record still lead to the right names.
TEST(DnsHttps, records_behind_a_shortened_one_are_intact) {
  DnsAnswer upstream = DnsAnswer{.name = "a.example", .type = kSvcb};
  upstream.answer(dns_record(
      kOwner, kSvcb, 60, hex("0001 00") + param(1, "\x02h2") + param(5, std::string(100, 'e'))));
  upstream.answer(dns_record(kOwner, kRrsig, 60,
                             u16(kSvcb) + std::string(16, 's') + dns_name("example") + "sig"));
  upstream.answer(
      dns_record(kOwner, kRrsig, 60, u16(kA) + std::string(16, 's') + dns_name("example") + "sig"));
  const std::size_t at = upstream.bytes().size();
  upstream.more_authority(dns_record(dns_name("zone.test"), kNs, 60, "\x02ns" + u16(0xc000 | at)));
  upstream.more(dns_record("\x02ns" + u16(0xc000 | at), kA, 60, hex("c6120009")));
  const LdnsView view = prepared(ask("a.example", kSvcb), upstream.bytes());
  EXPECT_EQ(view.answers.size(), 2U);  // the signature over the changed record is gone
  EXPECT_THAT(view.authority, ElementsAre("zone.test.\t60\tin\tns\tns.zone.test.\n"));
  EXPECT_THAT(view.additional, ElementsAre("ns.zone.test.\t60\tin\ta\t198.18.0.9\n"));
}

TEST(DnsAnswer, every_type_with_names_is_written_as_it_was_read) {
  // Every name ends in a pointer to the question's.
  const std::string to = "\x01n" + kOwner;
  DnsAnswer upstream{.name = "q.example", .type = kMx};
  for (const auto& [type, data] : std::vector<std::pair<std::size_t, std::string>>{
           {kNs, to},
           {kCname, to},
           {kPtr, kOwner},
           {kMx, u16(10) + to},
           {kSrv, u16(1) + u16(2) + u16(443) + to},
           {14, to + to},
           {17, to + kOwner},
           {18, u16(1) + to},
           {21, u16(1) + to},
           {26, u16(1) + to + to},
           {36, u16(1) + to},
           {39, to},
           {kNaptr, u16(1) + u16(2) +
                        "\x01"
                        "a\x00\x03xyz"s +
                        to},
           {kSoa, to + kOwner + std::string(20, '\x01')},
           {kTxt,
            "\x03"
            "abc"}}) {
    upstream.answer(dns_record(kOwner, type, 60, data));
  }
  const auto before = read_with_ldns(as_bytes(upstream.bytes()));
  ASSERT_TRUE(before);
  EXPECT_EQ(prepared(ask("q.example", kMx), upstream.bytes()).answers, before->answers);
}

TEST(DnsAnswer, answers_to_other_questions_are_refused) {
  const std::string good = many("a.example", 1).bytes();
  const Query query = ask("a.example", kA);
  const auto refused = [&](const std::string& upstream, const Query& q) {
    return !prepare_answer(q, Exact(upstream), 512);
  };
  EXPECT_FALSE(refused(good, query));
  EXPECT_TRUE(refused(good, ask("b.example", kA)));
  EXPECT_TRUE(refused(good, ask("a.example", kAaaa)));
  EXPECT_TRUE(refused(good, ask("aa.example", kA)));
  EXPECT_TRUE(refused(*render_query(1, "a.example", kA), query));
  std::string two = good;
  two[5] = 2;
  EXPECT_TRUE(refused(two, query));
  for (std::size_t size = 0; size < good.size(); ++size)
    EXPECT_TRUE(refused(good.substr(0, size), query)) << size;
}

TEST(DnsAnswer, compression_loops_and_overruns_are_refused) {
  const Query query = ask("a.example", kA);
  const auto refused = [&](const std::string& record) {
    const std::string upstream = DnsAnswer{.name = "a.example"}.answer(record).bytes();
    EXPECT_FALSE(addresses(Exact(upstream)) && prepare_answer(query, Exact(upstream), 512));
  };
  const std::size_t here = 12 + dns_name("a.example").size() + 4;
  refused(dns_record(u16(0xc000 | here), kA, 1, hex("c6120001")));        // itself
  refused(dns_record(u16(0xc000 | (here + 2)), kA, 1, hex("c6120001")));  // forwards
  refused(dns_record(hex("c000"), kA, 1, hex("c6120001")));               // into the header
  refused(dns_record(kOwner, kA, 1, hex("c61200")));                      // three bytes of address
  refused(dns_record(kOwner, kAaaa, 1, hex("c6120001")));
  refused(dns_record(kOwner, kCname, 1,
                     "\x05"
                     "ab"));  // the name runs out of its RDATA
  refused(kOwner + u16(1) + u16(1) + u16(0) + u16(1) + u16(5) +
          "abcd");  // RDATA runs out of the message
}

// I2: only what belongs to the asked name is an address of it.
TEST(DnsAddresses, records_of_other_names_are_not_taken) {
  DnsAnswer upstream = many("a.example", 2);
  upstream.answer(dns_record(dns_name("b.example"), kA, 1, hex("0a000001")));
  upstream.answer(dns_record(kOwner, kAaaa, 7, hex("20010db8 00000000 00000000 00000001")));
  upstream.more(dns_record(kOwner, kA, 1, hex("0a000002")));
  const auto found = addresses(Exact(upstream.bytes()));
  ASSERT_TRUE(found);
  EXPECT_THAT(found->addresses,
              ElementsAre(*Address::parse("198.18.0.1"), *Address::parse("198.18.0.2"),
                          *Address::parse("2001:db8::1")));
  EXPECT_EQ(found->ttl, 7U);
}

TEST(DnsAddresses, loops_of_cnames_end) {
  const DnsAnswer upstream = DnsAnswer{.name = "a.example"}
                                 .answer(dns_record(kOwner, kCname, 1, dns_name("b.example")))
                                 .answer(dns_record(dns_name("b.example"), kCname, 1, kOwner));
  EXPECT_FALSE(addresses(Exact(upstream.bytes())));
}

TEST(DnsAddresses, are_bounded_and_a_huge_ttl_counts_as_none) {
  DnsAnswer upstream = many("a.example", 200);
  upstream.answer(dns_record(kOwner, kA, 0xffffffff, hex("c6120001")));
  EXPECT_EQ(addresses(Exact(upstream.bytes()))->addresses.size(), kMaxAddresses);
  EXPECT_EQ(addresses(Exact(DnsAnswer{.name = "a.example"}
                                .answer(dns_record(kOwner, kA, 0xffffffff, hex("c6120001")))
                                .bytes()))
                ->ttl,
            0U);
  const auto none = addresses(Exact(DnsAnswer{.name = "a.example", .flags = 0x8183}.bytes()));
  ASSERT_TRUE(none);
  EXPECT_THAT(none->addresses, IsEmpty());
  EXPECT_EQ(none->rcode, 3);
}

// Random damage: whatever is accepted is a message that ldns reads with the same records.
TEST(DnsAnswerProperty, what_goes_to_the_guest_reads_as_what_came_from_the_upstream) {
  std::mt19937 random(17);
  // Without EDNS, since ldns misreads a record that follows one of a type like SINK.
  const Query query = ask("q.example", kA);
  int compared = 0;
  for (int round = 0; round < 20000; ++round) {
    DnsAnswer upstream = many("q.example", 1 + random() % 4);
    upstream.answer(dns_record(kOwner, kMx, 60, u16(10) + "\x02mx" + kOwner));
    upstream.more_authority(dns_record(dns_name("example"), kNs, 60, "\x02ns" + kOwner));
    upstream.more(dns_record("\x02ns" + kOwner, kAaaa, 60, std::string(16, '\x20')));
    std::string bytes = upstream.bytes();
    for (unsigned edits = random() % 3; edits > 0; --edits) {
      bytes[12 + random() % (bytes.size() - 12)] =
          static_cast<char>(random() % 2 ? random() : random() % 64);
    }
    const auto answer = prepare_answer(query, Exact(bytes), kMaxMessage);
    if (!answer) continue;
    const auto before = read_with_ldns(as_bytes(bytes));
    const auto after = read_with_ldns(as_bytes(*answer));
    // ldns knows more types than we look into and refuses RDATA that we pass as opaque bytes; it
    // does so on both sides.
    ASSERT_EQ(before.has_value(), after.has_value());
    if (!before) continue;
    // What is changed on purpose has its own tests above.
    const auto has = [&](std::uint16_t type) { return bytes.find(u16(type)) != std::string::npos; };
    if (has(kSvcb) || has(kHttps) || has(kOpt)) continue;
    ++compared;
    ASSERT_EQ(before->answers, after->answers);
    ASSERT_EQ(before->authority, after->authority);
    ASSERT_EQ(before->additional, after->additional);
  }
  EXPECT_GT(compared, 5000);
}

}  // namespace
}  // namespace sallyport::dns
