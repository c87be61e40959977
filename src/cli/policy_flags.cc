// SPDX-License-Identifier: Apache-2.0
#include "cli/policy_flags.h"

#include <fmt/format.h>

#include <cerrno>
#include <fstream>

#include "base/address.h"
#include "policy/domain_pattern.h"
#include "policy/policy_json.h"

namespace sallyport::cli {
namespace {

json::array strings(const std::vector<std::string>& texts) {
  json::array array;
  for (const std::string& text : texts) array.push_back(json::string(text));
  return array;
}

Result<> check_ranges(const char* flag, const std::vector<std::string>& ranges) {
  for (const std::string& text : ranges) {
    if (!Cidr::parse(text)) {
      return fail(
          Code::invalid,
          fmt::format("{} '{}': not an address or an address range like 10.0.0.0/8", flag, text));
    }
  }
  return {};
}

}  // namespace

void PolicyFlags::add_to(CLI::App& app) {
  const std::string group = "Network policy";
  app.add_option("--network-policy", network_policy,
                 "allow-all (the default for a new sandbox) or deny-all")
      ->group(group);
  app.add_option("--mode", mode, "The same as --network-policy")->group(group);
  app.add_option("--allowed-domain", allowed_domains,
                 "Allow a domain over TLS; * stands for one label, as the first for any number")
      ->group(group)
      ->allow_extra_args(false);
  app.add_option("--allowed-cidr", allowed_cidrs,
                 "Allow an address range, any protocol; goes before domains")
      ->group(group)
      ->allow_extra_args(false);
  app.add_option("--denied-cidr", denied_cidrs,
                 "Deny an address range; goes before everything that is allowed")
      ->group(group)
      ->allow_extra_args(false);
  app.add_option("--policy", file,
                 "A policy as JSON, from a file or - for standard input (docs/policy.md)")
      ->group(group);
}

Result<std::optional<json::value>> PolicyFlags::policy(std::istream& in) const {
  const bool lists = !allowed_domains.empty() || !allowed_cidrs.empty() || !denied_cidrs.empty();
  if (!mode.empty() && !network_policy.empty() && mode != network_policy) {
    return fail(Code::invalid, "--mode and --network-policy contradict each other");
  }
  const std::string& word = network_policy.empty() ? mode : network_policy;
  const char* flag = network_policy.empty() ? "--mode" : "--network-policy";
  if (!word.empty() && word != "allow-all" && word != "deny-all") {
    return fail(Code::invalid, fmt::format("{} '{}': neither allow-all nor deny-all", flag, word));
  }
  if (!word.empty() && lists) {
    return fail(
        Code::invalid,
        fmt::format("{} cannot be combined with --allowed-domain, --allowed-cidr or --denied-cidr",
                    flag));
  }
  if (!file.empty() && (!word.empty() || lists)) {
    return fail(Code::invalid, "--policy cannot be combined with other network policy flags");
  }
  if (!file.empty()) {
    const auto text = read_policy_file(file, in);
    if (!text) return context("--policy", text.error());
    auto value = parse_json(*text, {.max_bytes = policy::kMaxPolicyBytes});
    if (!value) return context("--policy " + file, value.error());
    if (auto checked = policy::policy_from_json(*value); !checked)
      return context("--policy " + file, checked.error());
    if (value->is_string()) return json::object{{"mode", value->get_string()}};
    return *std::move(value);
  }
  if (!word.empty()) return json::object{{"mode", word}};
  if (!lists) return std::nullopt;
  for (const std::string& domain : allowed_domains) {
    if (auto pattern = policy::parse_domain_pattern(domain); !pattern) {
      return fail(Code::invalid,
                  fmt::format("--allowed-domain '{}': {}", domain, pattern.error().message));
    }
  }
  if (auto checked = check_ranges("--allowed-cidr", allowed_cidrs); !checked)
    return std::unexpected(checked.error());
  if (auto checked = check_ranges("--denied-cidr", denied_cidrs); !checked)
    return std::unexpected(checked.error());
  json::object object;
  if (!allowed_domains.empty()) object["allow"] = strings(allowed_domains);
  json::object subnets;
  if (!allowed_cidrs.empty()) subnets["allow"] = strings(allowed_cidrs);
  if (!denied_cidrs.empty()) subnets["deny"] = strings(denied_cidrs);
  if (!subnets.empty()) object["subnets"] = std::move(subnets);
  json::value value = std::move(object);
  if (auto checked = policy::policy_from_json(value); !checked)
    return std::unexpected(checked.error());
  return value;
}

Result<std::string> read_policy_file(const std::string& path, std::istream& in) {
  std::ifstream file;
  if (path != "-") {
    errno = 0;
    file.open(path, std::ios::binary);
    if (!file) return fail_errno("open " + path);
  }
  std::istream& from = path == "-" ? in : file;
  std::string text(policy::kMaxPolicyBytes + 1, '\0');
  from.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(from.gcount()));
  if (from.bad()) return fail_errno("read " + path);
  if (text.size() > policy::kMaxPolicyBytes) {
    return fail(Code::invalid,
                fmt::format("{}: more than {} bytes", path, policy::kMaxPolicyBytes));
  }
  return text;
}

}  // namespace sallyport::cli
