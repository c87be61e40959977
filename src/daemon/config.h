// SPDX-License-Identifier: Apache-2.0
// The node's configuration: JSON with comments, every key optional, unknown keys refused by name
// (docs/operations.md has them all). What is not in the file has a default that works on a fresh
// machine.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "api/auth.h"
#include "base/address.h"
#include "base/log.h"
#include "base/result.h"

namespace sallyport::daemon {

inline constexpr const char* kDefaultConfigPath = "/etc/sallyport/sandboxd.json";

struct Config {
  std::string listen = "unix:/run/sallyport/sandboxd.sock";
  std::string socket_group;
  std::vector<api::Token> tokens;
  std::string state_dir = "/var/lib/sallyport";
  std::string run_dir = "/run/sallyport";
  std::vector<Address> resolvers;  // empty: from /etc/resolv.conf
  Cidr pool4 = *Cidr::parse("10.209.0.0/16");
  Cidr pool6 = *Cidr::parse("fd53:616c:6c79::/48");
  std::vector<Cidr> boundary_close;
  std::vector<Cidr> boundary_open;
  std::map<std::string, std::vector<Cidr>> networks;
  std::string oci_runtime = "auto";
  std::uint64_t disk_bytes = 32ULL << 30;
  std::uint64_t egress_log_bytes = 64ULL << 20;
  unsigned connections = 4096;  // per sandbox
  unsigned max_sandboxes = 10'000;
  std::int64_t longest_timeout_ms = 24LL * 3600 * 1000;
  std::int64_t keep_stopped_ms = 14LL * 24 * 3600 * 1000;
  std::uint64_t worker_memory_bytes = 512ULL << 20;
  log::Level log_level = log::Level::info;
};

[[nodiscard]] std::vector<std::string_view> config_keys();
[[nodiscard]] Result<Config> parse_config(std::string_view text);
// A missing file is the default configuration only when nobody named it.
[[nodiscard]] Result<Config> load_config(const std::string& path, bool may_be_missing);
[[nodiscard]] Result<std::vector<Address>> resolvers_of(std::string_view resolv_conf);

}  // namespace sallyport::daemon
