// SPDX-License-Identifier: Apache-2.0
// docs/egress-log.md lists every field and every reason code that the code can write.
#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <set>
#include <string>

#include "firewall/audit.h"
#include "policy/decide.h"

namespace sallyport::firewall {
namespace {

std::string read(const std::filesystem::path& path) {
  std::ifstream in(std::filesystem::path(SALLYPORT_SOURCE_DIR) / path);
  EXPECT_TRUE(in) << path;
  return {std::istreambuf_iterator<char>(in), {}};
}

// First column of every table row: | `code` | ...
std::set<std::string> listed() {
  const std::string page = read("docs/egress-log.md");
  static const std::regex kRow(R"(\| `([a-z_0-9]+)` \|)");
  std::set<std::string> out;
  for (std::sregex_iterator it(page.begin(), page.end(), kRow), end; it != end; ++it)
    out.insert((*it)[1]);
  return out;
}

TEST(EgressLogPage, lists_every_reason_of_the_policy) {
  const auto page = listed();
  for (int i = 0; i <= static_cast<int>(policy::Reason::protocol_not_allowed); ++i) {
    const std::string code(policy::to_string(static_cast<policy::Reason>(i)));
    EXPECT_TRUE(page.contains(code)) << code;
  }
}

// The codes that the firewall's sources and the ruleset write as text.
TEST(EgressLogPage, lists_every_other_code_that_the_sources_write) {
  static const std::regex kCode(
      R"re((?:give_up\(\s*"|\breason =\s*"|kQueryRefused =\s*"|: std::string_view\(\s*"|log prefix "sp:)([a-z]+_[a-z_]+|malformed|boundary)")re");
  const auto page = listed();
  std::set<std::string> found;
  for (const char* folder : {"src/firewall", "src/host"}) {
    for (const auto& entry : std::filesystem::directory_iterator(
             std::filesystem::path(SALLYPORT_SOURCE_DIR) / folder)) {
      if (entry.path().extension() != ".cc") continue;
      const std::string source = read(entry.path());
      for (std::sregex_iterator it(source.begin(), source.end(), kCode), end; it != end; ++it)
        found.insert((*it)[1]);
    }
  }
  EXPECT_TRUE(found.contains("dns_query_refused")) << "the expression above finds nothing any more";
  EXPECT_TRUE(found.contains("spoofed_source"));
  for (const std::string& code : found) EXPECT_TRUE(page.contains(code)) << code;
}

TEST(EgressLogPage, lists_every_field) {
  AuditRecord record;
  record.detail = "x";
  std::string line;
  append_line(line, "sbx_1", {}, record);
  const auto page = listed();
  const auto object = boost::json::parse(line).as_object();
  EXPECT_EQ(object.at("v").as_int64(), 1);
  for (const auto& field : object)
    EXPECT_TRUE(page.contains(std::string(field.key()))) << field.key();
}

}  // namespace
}  // namespace sallyport::firewall
