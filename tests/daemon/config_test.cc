// SPDX-License-Identifier: Apache-2.0
// The configuration: defaults, every key, every mistake by name, and that docs/operations.md knows
// the same keys.
#include "daemon/config.h"

#include <gtest/gtest.h>

#include <fstream>
#include <regex>
#include <set>
#include <sstream>

namespace sallyport::daemon {
namespace {

std::string operations_page() {
  std::stringstream text;
  text << std::ifstream(SALLYPORT_SOURCE_DIR "/docs/operations.md").rdbuf();
  return text.str();
}

TEST(Config, an_empty_file_is_the_defaults) {
  const auto config = parse_config("{}");
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->listen, "unix:/run/sallyport/sandboxd.sock");
  EXPECT_EQ(config->state_dir, "/var/lib/sallyport");
  EXPECT_EQ(config->run_dir, "/run/sallyport");
  EXPECT_EQ(config->pool4.to_string(), "10.209.0.0/16");
  EXPECT_EQ(config->pool6.to_string(), "fd53:616c:6c79::/48");
  EXPECT_TRUE(config->resolvers.empty()) << "then /etc/resolv.conf says";
}

TEST(Config, comments_and_every_key_are_read) {
  const auto config = parse_config(R"({
    // where clients come in
    "listen": "tcp:127.0.0.1:8400", "socket_group": "sallyport",
    "tokens": [{"name": "ci", "sha256": "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08", "team": "t"}],
    "state_dir": "/srv/sp/", "run_dir": "/run/sp",
    "resolvers": ["198.18.0.53", "2001:db8::53"], "pool4": "10.1.0.0/16", "pool6": "fd00:1::/48",
    "boundary": {"close": ["203.0.113.0/24"], "open": ["198.18.0.0/15"]},
    "networks": {"corp": ["10.20.0.0/16", "fd00:2::/64"]},
    "oci_runtime": "runc", "disk_bytes": 1073741824, "egress_log_bytes": 1048576, "connections": 100,
    "max_sandboxes": 5, "longest_timeout_ms": 60000, "keep_stopped_ms": 0, "worker_memory_bytes": 268435456,
    "log_level": "debug" /* all of it */
  })");
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->state_dir, "/srv/sp");
  EXPECT_EQ(config->tokens.at(0).team, "t");
  EXPECT_EQ(config->resolvers.at(1).to_string(), "2001:db8::53");
  EXPECT_EQ(config->boundary_open.at(0).to_string(), "198.18.0.0/15");
  EXPECT_EQ(config->networks.at("corp").size(), 2U);
  EXPECT_EQ(config->disk_bytes, 1U << 30);
  EXPECT_EQ(config->log_level, log::Level::debug);
}

TEST(Config, mistakes_are_named) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {R"({"lisen":"unix:/x"})", "$.lisen: no such key"},
      {R"({"boundary":{"closed":[]}})", "$.boundary.closed: no such key"},
      {R"({"boundary":{"open":["10.0.0.0/40"]}})", "$.boundary.open[0]"},
      {R"({"boundary":[]})", "$.boundary"},
      {R"({"networks":{"corp":["x"]}})", "$.networks.corp[0]"},
      {R"({"networks":["10.0.0.0/8"]})", "$.networks"},
      {R"({"resolvers":[]})", "$.resolvers"},
      {R"({"resolvers":["dns.example"]})", "$.resolvers[0]"},
      {R"({"tokens":[{"name":"x","sha256":"short"}]})", "$.tokens[0]"},
      {R"({"tokens":[{"token":"plain"}]})", "$.tokens[0].token: no such key"},
      {R"({"state_dir":"relative"})", "$.state_dir: must be an absolute path"},
      {R"({"pool4":"10.0.0.0/30"})", "$.pool4"},
      {R"({"pool4":"fd00::/48"})", "$.pool4"},
      {R"({"pool6":"10.0.0.0/16"})", "$.pool6"},
      {R"({"connections":"many"})", "$.connections"},
      {R"({"connections":1000000})", "$.connections"},
      {R"({"log_level":"loud"})", "$.log_level"},
      {R"({"listen":1})", "$.listen"},
      {R"({"listen":"a","listen":"b"})", "duplicate"},
      {R"([])", "must be an object"},
  };
  for (const auto& [text, expected] : cases) {
    const auto config = parse_config(text);
    ASSERT_FALSE(config) << text;
    EXPECT_NE(config.error().message.find(expected), std::string::npos)
        << text << " -> " << config.error().message;
  }
}

TEST(Config, a_missing_file_is_fine_only_when_nobody_named_it) {
  EXPECT_TRUE(load_config("/nonexistent/sandboxd.json", true));
  EXPECT_EQ(load_config("/nonexistent/sandboxd.json", false).error().code, Code::not_found);
}

TEST(Config, the_operations_page_has_every_key_and_no_other) {
  std::set<std::string> documented;
  const std::string page = operations_page();
  const std::regex row(R"(\n\| `([a-z0-9_]+)` \|)");
  for (std::sregex_iterator it(page.begin(), page.end(), row); it != std::sregex_iterator(); ++it)
    documented.insert((*it)[1]);
  std::set<std::string> known;
  for (const std::string_view key : config_keys()) known.emplace(key);
  EXPECT_EQ(documented, known);
}

TEST(Resolvers, are_read_as_the_c_library_reads_them) {
  const auto found = resolvers_of(
      "# comment\nsearch example.com\nnameserver 198.18.0.53\nnameserver\t2001:db8::53  \n"
      "nameserver fe80::1%eth0\nnameserver x\n nameserver 198.18.0.54\nnameserver 198.18.0.55");
  ASSERT_TRUE(found);
  ASSERT_EQ(found->size(), 3U);
  EXPECT_EQ((*found)[1].to_string(), "2001:db8::53");
  EXPECT_EQ((*found)[2].to_string(), "198.18.0.55");
  EXPECT_FALSE(resolvers_of("search x\n"));
}

}  // namespace
}  // namespace sallyport::daemon
