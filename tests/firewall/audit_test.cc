// SPDX-License-Identifier: Apache-2.0
#include "firewall/audit.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/mman.h>
#include <unistd.h>

#include <boost/json.hpp>

#include "firewall/egress_lines.h"

namespace sallyport::firewall {
namespace {

using test::text;

std::string line_of(const AuditRecord& record, std::string_view sandbox = "sbx_1") {
  std::string out;
  append_line(out, sandbox,
              std::chrono::system_clock::time_point(std::chrono::milliseconds(1796079005123)),
              record);
  return out;
}

TEST(EgressLine, has_every_field_of_the_schema) {
  AuditRecord record;
  record.policy_version = 7;
  record.protocol = "tls";
  record.name = "api.example.com";
  record.destination = Endpoint{*Address::parse("198.18.0.10"), 443};
  record.dialled = Endpoint{*Address::parse("2001:db8::1"), 443};
  record.verdict = policy::Access::allow;
  record.reason = "allowed_domain";
  record.entry = "*.example.com";
  record.bytes_up = 10;
  record.bytes_down = 20;
  record.duration = std::chrono::milliseconds(30);
  record.detail = "a sentence";
  EXPECT_EQ(
      line_of(record),
      R"({"v":1,"time":"2026-11-30T22:50:05.123Z","sandbox":"sbx_1","policy":7,"protocol":"tls",)"
      R"("name":"api.example.com","destination":"198.18.0.10:443","dialled":"[2001:db8::1]:443","verdict":"allow",)"
      R"("reason":"allowed_domain","entry":"*.example.com","bytes_up":10,"bytes_down":20,"duration_ms":30,)"
      R"("via":"worker","detail":"a sentence"})"
      "\n");
}

TEST(EgressLine, says_null_for_what_is_not_known_and_leaves_an_empty_detail_out) {
  AuditRecord record;
  record.destination = Endpoint{*Address::parse("198.18.0.10"), 0};
  const auto line = boost::json::parse(line_of(record)).as_object();
  EXPECT_TRUE(line.at("name").is_null());
  EXPECT_TRUE(line.at("dialled").is_null());
  EXPECT_EQ(line.at("destination").as_string(), "198.18.0.10");
  EXPECT_EQ(line.at("verdict").as_string(), "deny");
  EXPECT_FALSE(line.contains("detail"));
}

// A guest chooses some of these bytes; it must not be able to write a line of its own.
TEST(EgressLine, is_one_line_of_valid_json_whatever_bytes_are_in_it) {
  unsigned seed = 1;
  for (int round = 0; round < 2000; ++round) {
    std::string bytes(static_cast<std::size_t>(round % 40), '\0');
    for (char& byte : bytes) {
      seed = seed * 1664525U + 1013904223U;
      byte = static_cast<char>(seed >> 24);
    }
    AuditRecord record;
    record.name = bytes;
    record.detail = "x" + bytes;
    record.entry = bytes;
    const std::string line = line_of(record, bytes);
    ASSERT_EQ(line.find('\n'), line.size() - 1);
    boost::system::error_code error;
    const auto value = boost::json::parse(line, error);  // strict about UTF-8
    ASSERT_FALSE(error) << line;
    ASSERT_EQ(value.at("v").as_int64(), 1);
  }
}

TEST(EgressLine, keeps_text_that_is_utf8_and_replaces_what_is_not) {
  AuditRecord record;
  record.detail = "gr\xc3\xbc\xc3\x9f \xff \"q\" \\ \n";
  EXPECT_EQ(boost::json::parse(line_of(record)).at("detail").as_string(),
            "gr\xc3\xbc\xc3\x9f \xef\xbf\xbd \"q\" \\ \n");
}

TEST(Audit, lines_of_a_turn_leave_together_and_in_order) {
  test::EgressLines egress;
  int scheduled = 0;
  egress.audit.collect([&] { ++scheduled; });
  AuditRecord record;
  for (int i = 0; i < 3; ++i) {
    record.bytes_up = static_cast<std::uint64_t>(i);
    egress.audit.write(record);
  }
  EXPECT_EQ(scheduled, 1);
  EXPECT_TRUE(egress.lines().empty());
  egress.audit.flush();
  const auto lines = egress.lines();
  ASSERT_EQ(lines.size(), 3U);
  EXPECT_EQ(text(lines[2], "bytes_up"), "2");
  EXPECT_EQ(egress.audit.lines(), 3U);
}

TEST(Audit, asks_for_rotation_once_and_again_after_it) {
  test::EgressLines egress;
  std::vector<std::uint64_t> asked;
  egress.audit.limit(1000, [&](std::uint64_t bytes) { asked.push_back(bytes); });
  for (int i = 0; i < 8; ++i) egress.audit.write({});
  ASSERT_EQ(asked.size(), 1U);
  EXPECT_GE(asked[0], 1000U);
  egress.audit.rotate(Fd(::memfd_create("next", MFD_CLOEXEC)));
  EXPECT_EQ(egress.audit.bytes(), 0U);
  for (int i = 0; i < 8; ++i) egress.audit.write({});
  EXPECT_EQ(asked.size(), 2U);
}

TEST(Audit, counts_a_log_that_it_finds_full_already) {
  const Fd file(::memfd_create("old", MFD_CLOEXEC));
  ASSERT_EQ(::ftruncate(file.get(), 5000), 0);
  Audit audit(Fd(::dup(file.get())));
  EXPECT_EQ(audit.bytes(), 5000U);
}

TEST(Audit, a_log_that_nobody_rotates_stops_at_twice_its_limit) {
  test::EgressLines egress;
  egress.audit.limit(1000, {});
  for (int i = 0; i < 100; ++i) egress.audit.write({});
  EXPECT_LT(egress.audit.bytes(), 2400U);
  EXPECT_EQ(egress.audit.lines() + egress.audit.dropped(), 100U);
  EXPECT_GT(egress.audit.dropped(), 80U);
}

TEST(Audit, a_line_that_cannot_be_written_is_counted_and_stops_nothing) {
  Audit nowhere;
  nowhere.write({});
  EXPECT_EQ(nowhere.dropped(), 1U);
  Audit full(Fd(::open("/dev/full", O_WRONLY | O_CLOEXEC)));
  full.write({});
  EXPECT_EQ(full.dropped(), 1U);
  EXPECT_EQ(full.lines(), 0U);
}

}  // namespace
}  // namespace sallyport::firewall
