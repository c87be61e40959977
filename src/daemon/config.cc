// SPDX-License-Identifier: Apache-2.0
#include "daemon/config.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <array>
#include <functional>

#include "base/fd.h"
#include "base/json.h"

namespace sallyport::daemon {
namespace {

constexpr std::size_t kMaxConfig = 4U << 20;

Result<std::string> text(const json::value& value, std::string_view at) {
  if (!value.is_string() || value.get_string().empty())
    return fail(Code::invalid, fmt::format("{}: must be a string", at));
  return std::string(value.get_string());
}

Result<> set_text(const json::value& value, std::string_view at, std::string& to) {
  auto read = text(value, at);
  if (!read) return std::unexpected(read.error());
  to = *std::move(read);
  return {};
}

Result<> set_directory(const json::value& value, std::string_view at, std::string& to) {
  if (Result<> done = set_text(value, at, to); !done) return done;
  if (!to.starts_with('/'))
    return fail(Code::invalid, fmt::format("{}: must be an absolute path", at));
  while (to.size() > 1 && to.ends_with('/')) to.pop_back();
  return {};
}

template <class T>
Result<> set_number(const json::value& value, std::string_view at, T& to, std::int64_t least,
                    std::int64_t most) {
  if (!value.is_int64() || value.get_int64() < least || value.get_int64() > most) {
    return fail(Code::invalid,
                fmt::format("{}: must be an integer between {} and {}", at, least, most));
  }
  to = static_cast<T>(value.get_int64());
  return {};
}

Result<> set_range(const json::value& value, std::string_view at, Cidr& to) {
  const auto read = text(value, at);
  if (!read) return std::unexpected(read.error());
  const auto range = Cidr::parse(*read);
  if (!range) return fail(Code::invalid, fmt::format("{}: '{}' is no address range", at, *read));
  to = *range;
  return {};
}

Result<> set_ranges(const json::value& value, std::string_view at, std::vector<Cidr>& to) {
  if (!value.is_array())
    return fail(Code::invalid, fmt::format("{}: must be an array of address ranges", at));
  to.clear();
  for (const json::value& each : value.get_array()) {
    Cidr range;
    if (Result<> done = set_range(each, json_path_index(at, to.size()), range); !done) return done;
    to.push_back(range);
  }
  return {};
}

Result<> set_boundary(const json::value& value, std::string_view at, Config& config) {
  if (!value.is_object()) return fail(Code::invalid, fmt::format("{}: must be an object", at));
  for (const auto& [key, ranges] : value.get_object()) {
    const std::string place = json_path_key(at, key);
    if (key != "close" && key != "open")
      return fail(Code::invalid, place + ": no such key; there are close and open");
    if (Result<> done = set_ranges(ranges, place,
                                   key == "close" ? config.boundary_close : config.boundary_open);
        !done)
      return done;
  }
  return {};
}

Result<> set_networks(const json::value& value, std::string_view at, Config& config) {
  if (!value.is_object())
    return fail(Code::invalid, fmt::format("{}: must be an object of names and ranges", at));
  for (const auto& [key, ranges] : value.get_object()) {
    if (Result<> done = set_ranges(ranges, json_path_key(at, key), config.networks[key]); !done)
      return done;
  }
  return {};
}

Result<> set_resolvers(const json::value& value, std::string_view at, Config& config) {
  if (!value.is_array() || value.get_array().empty())
    return fail(Code::invalid, fmt::format("{}: must be an array of addresses", at));
  for (const json::value& each : value.get_array()) {
    const auto read = text(each, json_path_index(at, config.resolvers.size()));
    if (!read) return std::unexpected(read.error());
    const auto address = Address::parse(*read);
    if (!address)
      return fail(Code::invalid, fmt::format("{}: '{}' is no address",
                                             json_path_index(at, config.resolvers.size()), *read));
    config.resolvers.push_back(*address);
  }
  return {};
}

Result<> set_tokens(const json::value& value, std::string_view at, Config& config) {
  if (!value.is_array()) return fail(Code::invalid, fmt::format("{}: must be an array", at));
  for (const json::value& each : value.get_array()) {
    const std::string place = json_path_index(at, config.tokens.size());
    if (!each.is_object()) return fail(Code::invalid, place + ": must be an object");
    std::string name, hash;
    std::optional<std::string> team;
    for (const auto& [key, member] : each.get_object()) {
      auto read = text(member, json_path_key(place, key));
      if (!read) return std::unexpected(read.error());
      if (key == "name")
        name = *read;
      else if (key == "sha256")
        hash = *read;
      else if (key == "team")
        team = *read;
      else
        return fail(Code::invalid,
                    json_path_key(place, key) + ": no such key; there are name, sha256 and team");
    }
    auto token = api::make_token(std::move(name), hash, std::move(team));
    if (!token) return context(place, token.error());
    config.tokens.push_back(*std::move(token));
  }
  return {};
}

Result<> set_level(const json::value& value, std::string_view at, Config& config) {
  const auto read = text(value, at);
  if (!read) return std::unexpected(read.error());
  if (*read == "debug")
    config.log_level = log::Level::debug;
  else if (*read == "info")
    config.log_level = log::Level::info;
  else if (*read == "warn")
    config.log_level = log::Level::warn;
  else if (*read == "error")
    config.log_level = log::Level::error;
  else
    return fail(Code::invalid, fmt::format("{}: must be debug, info, warn or error", at));
  return {};
}

// The table that docs/operations.md repeats; tests/daemon compares them.
struct Key {
  std::string_view name;
  Result<> (*set)(const json::value&, std::string_view at, Config&);
};
using V = const json::value&;
using At = std::string_view;
constexpr std::int64_t kGiB = 1LL << 30;

constexpr auto kKeys = std::to_array<Key>({
    {"listen", [](V v, At at, Config& c) { return set_text(v, at, c.listen); }},
    {"socket_group", [](V v, At at, Config& c) { return set_text(v, at, c.socket_group); }},
    {"tokens", set_tokens},
    {"state_dir", [](V v, At at, Config& c) { return set_directory(v, at, c.state_dir); }},
    {"run_dir", [](V v, At at, Config& c) { return set_directory(v, at, c.run_dir); }},
    {"resolvers", set_resolvers},
    {"pool4", [](V v, At at, Config& c) { return set_range(v, at, c.pool4); }},
    {"pool6", [](V v, At at, Config& c) { return set_range(v, at, c.pool6); }},
    {"boundary", set_boundary},
    {"networks", set_networks},
    {"oci_runtime", [](V v, At at, Config& c) { return set_text(v, at, c.oci_runtime); }},
    {"disk_bytes",
     [](V v, At at, Config& c) {
       return set_number(v, at, c.disk_bytes, 64LL << 20, 4096 * kGiB);
     }},
    {"egress_log_bytes",
     [](V v, At at, Config& c) {
       return set_number(v, at, c.egress_log_bytes, 65'536, 64 * kGiB);
     }},
    {"connections",
     [](V v, At at, Config& c) { return set_number(v, at, c.connections, 16, 8'000); }},
    {"max_sandboxes",
     [](V v, At at, Config& c) { return set_number(v, at, c.max_sandboxes, 1, 65'536); }},
    {"longest_timeout_ms",
     [](V v, At at, Config& c) {
       return set_number(v, at, c.longest_timeout_ms, 1'000, 365LL * 86'400'000);
     }},
    {"keep_stopped_ms",
     [](V v, At at,
        Config& c) { return set_number(v, at, c.keep_stopped_ms, 0, 3650LL * 86'400'000); }},
    {"worker_memory_bytes",
     [](V v, At at,
        Config& c) { return set_number(v, at, c.worker_memory_bytes, 16LL << 20, 64 * kGiB); }},
    {"log_level", set_level},
});

}  // namespace

std::vector<std::string_view> config_keys() {
  std::vector<std::string_view> names;
  for (const Key& key : kKeys) names.push_back(key.name);
  return names;
}

Result<Config> parse_config(std::string_view content) {
  const auto value =
      parse_json(content, {.max_bytes = kMaxConfig, .max_depth = 8, .comments = true});
  if (!value) return std::unexpected(value.error());
  if (!value->is_object()) return fail(Code::invalid, "$: must be an object");
  Config config;
  for (const auto& [name, member] : value->get_object()) {
    const std::string at = json_path_key("$", name);
    const auto key = std::ranges::find(kKeys, std::string_view(name), &Key::name);
    if (key == kKeys.end())
      return fail(Code::invalid, at + ": no such key; docs/operations.md lists them");
    if (Result<> done = key->set(member, at, config); !done) return std::unexpected(done.error());
  }
  if (!config.pool4.is_v4() || config.pool4.prefix() > 24)
    return fail(Code::invalid, "$.pool4: must be IPv4 and at least a /24");
  if (config.pool6.is_v4() || config.pool6.prefix() > 56)
    return fail(Code::invalid, "$.pool6: must be IPv6 and at least a /56");
  return config;
}

Result<Config> load_config(const std::string& path, bool may_be_missing) {
  const Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file) {
    if (errno == ENOENT && may_be_missing) return Config{};
    return fail_errno("read " + path);
  }
  std::string content(kMaxConfig + 1, '\0');
  const ssize_t size = ::read(file.get(), content.data(), content.size());
  if (size < 0) return fail_errno("read " + path);
  content.resize(static_cast<std::size_t>(size));
  auto config = parse_config(content);
  if (!config) return context(path, config.error());
  return config;
}

Result<std::vector<Address>> resolvers_of(std::string_view resolv_conf) {
  std::vector<Address> out;
  while (!resolv_conf.empty()) {
    const std::size_t end = std::min(resolv_conf.find('\n'), resolv_conf.size());
    std::string_view line = resolv_conf.substr(0, end);
    resolv_conf.remove_prefix(std::min(end + 1, resolv_conf.size()));
    if (!line.starts_with("nameserver")) continue;
    line.remove_prefix(10);
    const std::size_t first = line.find_first_not_of(" \t");
    if (first == 0 || first == std::string_view::npos) continue;
    line.remove_prefix(first);
    line = line.substr(0, line.find_first_of(" \t\r#;"));
    // A zone ("fe80::1%eth0") names a link that the workers do not have.
    if (const auto address = Address::parse(line)) out.push_back(*address);
  }
  if (out.empty())
    return fail(Code::not_found,
                "no usable nameserver in /etc/resolv.conf: set `resolvers` in the configuration");
  return out;
}

}  // namespace sallyport::daemon
