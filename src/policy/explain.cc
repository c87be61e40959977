// SPDX-License-Identifier: Apache-2.0
#include "policy/explain.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "base/check.h"
#include "policy/domain_pattern.h"

namespace sallyport::policy {
namespace {

struct Scheme {
  std::string_view name;
  std::uint16_t port;
  Protocol protocol;
};
constexpr std::array kSchemes = {
    Scheme{"https", 443, Protocol::tls},
    Scheme{"http", 80, Protocol::other},
    Scheme{"wss", 443, Protocol::tls},
    Scheme{"ws", 80, Protocol::other},
    Scheme{"postgres", 5432, Protocol::postgres},
    Scheme{"postgresql", 5432, Protocol::postgres},
    Scheme{"ssh", 22, Protocol::other},
    Scheme{"git", 9418, Protocol::other},
    Scheme{"ftp", 21, Protocol::other},
    Scheme{"rediss", 6379, Protocol::tls},
    Scheme{"redis", 6379, Protocol::other},
    Scheme{"tls", 443, Protocol::tls},
    Scheme{"ldaps", 636, Protocol::tls},
    Scheme{"amqps", 5671, Protocol::tls},
};
// Ports whose protocol does not begin with a TLS handshake.
constexpr std::array<std::uint16_t, 11> kPlainPorts = {21,  22,  23,   25,   80,  110,
                                                       143, 587, 3306, 6379, 9418};

struct Target {
  std::string host;                // as written, without brackets
  std::optional<Address> address;  // the host is one
  std::optional<std::uint16_t> port;
  Protocol protocol = Protocol::tls;
  std::string request;  // path and query of a URL over HTTP, empty else
};

std::optional<std::uint16_t> port_of(std::string_view text) {
  unsigned port = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
  if (error != std::errc{} || end != text.data() + text.size() || port == 0 || port > 65535)
    return std::nullopt;
  return static_cast<std::uint16_t>(port);
}

Result<> read_authority(std::string_view text, Target& target) {
  if (const auto at = text.rfind('@'); at != std::string_view::npos) text.remove_prefix(at + 1);
  if (const auto bare = Address::parse(text)) {
    target.host = std::string(text);
    target.address = bare;
    return {};
  }
  std::string_view host = text;
  std::string_view port;
  if (text.starts_with('[') && text.find(']') != std::string_view::npos) {
    const auto end = text.find(']');
    host = text.substr(1, end - 1);
    port = text.substr(end + 1);
  } else if (const auto colon = text.rfind(':'); colon != std::string_view::npos) {
    host = text.substr(0, colon);
    port = text.substr(colon);
  }
  if (!port.empty()) {
    target.port = port.front() == ':' ? port_of(port.substr(1)) : std::nullopt;
    if (!target.port) return fail(Code::invalid, fmt::format("'{}' has no valid port", text));
  }
  target.address = Address::parse(host);
  target.host = std::string(host);
  if (target.address) return {};
  const auto normal = parse_domain_pattern(host);  // accepts U-labels, as a policy does
  if (!normal || normal->find('*') != std::string::npos) {
    return fail(Code::invalid, fmt::format("'{}' is neither a host name nor an address", host));
  }
  target.host = *normal;
  return {};
}

Result<Target> read_target(std::string_view text) {
  Target target;
  const auto separator = text.find("://");
  if (separator == std::string_view::npos) {
    if (auto read = read_authority(text, target); !read) return std::unexpected(read.error());
    if (target.port == 5432) target.protocol = Protocol::postgres;
    if (target.port && std::ranges::find(kPlainPorts, *target.port) != kPlainPorts.end()) {
      target.protocol = Protocol::other;
    }
    return target;
  }
  const std::string_view name = text.substr(0, separator);
  const auto scheme = std::ranges::find(kSchemes, name, &Scheme::name);
  if (scheme == kSchemes.end()) {
    std::string known;
    for (const Scheme& each : kSchemes)
      known += (known.empty() ? "" : ", ") + std::string(each.name);
    return fail(Code::invalid,
                fmt::format("unknown scheme '{}'; known are {}; or write host:port", name, known));
  }
  std::string_view rest = text.substr(separator + 3);
  rest = rest.substr(0, rest.find('#'));
  const auto end = rest.find_first_of("/?");
  if (auto read = read_authority(rest.substr(0, end), target); !read)
    return std::unexpected(read.error());
  target.protocol = scheme->protocol;
  if (!target.port) target.port = scheme->port;
  if (name == "https" || name == "wss") {
    target.request = end == std::string_view::npos ? "/" : std::string(rest.substr(end));
    if (target.request.front() == '?') target.request.insert(0, "/");
  }
  return target;
}

std::string_view kind_of(const Rule& rule) {
  if (std::holds_alternative<Transform>(rule.action)) return "transform";
  return std::holds_alternative<Forward>(rule.action) ? "forwardURL" : "response";
}

std::string by_entry(const Decision& decision) {
  return decision.entry.empty() ? std::string() : fmt::format(" (entry \"{}\")", decision.entry);
}

std::string_view protocol_text(Protocol protocol) {
  switch (protocol) {
    case Protocol::tls:
      return "TLS";
    case Protocol::postgres:
      return "Postgres with TLS";
    case Protocol::other:
      return "a protocol that does not begin with TLS";
  }
  CHECK(false);
}

std::string describe(const Policy& policy) {
  if (policy.mode == Mode::allow_all) return "policy: allow-all";
  if (policy.mode == Mode::deny_all) return "policy: deny-all";
  if (policy.denies_everything()) return "policy: custom with nothing allowed, which is deny-all";
  return fmt::format("policy: custom; allowed: {} domain(s), {} range(s); denied: {} range(s)",
                     policy.domains.size(), policy.allowed.size(), policy.denied.size());
}

bool covers_everything(const Policy& policy) {
  const auto has = [&](std::string_view text) {
    return std::ranges::find(policy.allowed, Cidr::parse(text).value()) != policy.allowed.end();
  };
  return has("0.0.0.0/0") && has("::/0");
}

std::string ranges_text(const std::vector<Cidr>& ranges) {
  constexpr std::size_t kShown = 4;
  std::string text;
  for (std::size_t i = 0; i < std::min(ranges.size(), kShown); ++i) {
    text += (i == 0 ? "" : ", ") + ranges[i].to_string();
  }
  if (ranges.size() > kShown) text += fmt::format(" and {} more", ranges.size() - kShown);
  return text;
}

void explain_handling(const Decision& decision, const Target& target,
                      std::vector<std::string>& lines) {
  if (decision.rules_ignored) {
    lines.push_back(target.protocol == Protocol::postgres
                        ? "handling: none; rules do not apply over Postgres"
                        : "handling: none; rules need a readable name");
    return;
  }
  if (decision.domain == nullptr) return;
  const auto& rules = decision.domain->rules;
  if (rules.empty()) {
    lines.emplace_back("handling: none; TLS passes through, never decrypted");
    return;
  }
  lines.push_back(fmt::format("handling: TLS is terminated, because {} has {} rule(s)",
                              decision.domain->pattern, rules.size()));
  if (target.request.empty()) return;
  const Rule* rule = choose_rule(*decision.domain, RequestView("GET", target.request, {}));
  lines.push_back(
      rule == nullptr
          ? fmt::format(
                "request: GET {} without special headers matches no rule and goes on unchanged",
                target.request)
          : fmt::format("request: GET {} matches rule {} ({})", target.request, rule - rules.data(),
                        kind_of(*rule)));
}

void add_verdict(Explanation& explanation) {
  const Decision& decision = explanation.decision;
  explanation.lines.push_back(
      fmt::format("{}: {}{} [{}]", explanation.allowed() ? "allowed" : "denied",
                  sentence(decision.reason), by_entry(decision), to_string(decision.reason)));
}

Explanation explain_address(const Policy& policy, const Boundary& boundary, const Target& target) {
  Explanation result;
  const Address& address = *target.address;
  result.lines.push_back(describe(policy));
  if (const auto carried = address.embedded_v4()) {
    result.lines.push_back(fmt::format("address: {} carries {}, both are judged",
                                       address.to_string(), carried->to_string()));
  }
  const Decision plain = decide_address(policy, boundary, address);
  result.decision = decide(policy, boundary,
                           {target.protocol, std::nullopt, {address, target.port.value_or(443)}});
  if (target.port == 53) {
    result.lines.emplace_back(
        "dns: port 53 of an address in no allowed range is answered by the firewall itself, by "
        "name");
  }
  if (result.allowed() && plain.access == Access::deny) {
    result.lines.emplace_back(
        "tcp only: \"*\" admits connections without a name; UDP, ICMP and others are rejected");
  } else if (!result.allowed() && !policy.domains.empty() &&
             plain.reason == Reason::protocol_not_allowed) {
    result.lines.emplace_back(
        "tcp: a TLS connection to it that names an allowed domain goes to that domain, not to this "
        "address");
  }
  if (result.decision.reason == Reason::not_tls ||
      result.decision.reason == Reason::no_server_name) {
    result.lines.push_back(
        fmt::format("tcp: a bare address names no domain, and no allowed range contains {}",
                    address.to_string()));
  }
  explain_handling(result.decision, target, result.lines);
  add_verdict(result);
  return result;
}

Explanation explain_name(const Policy& policy, const Target& target) {
  Explanation result;
  result.lines.push_back(describe(policy));
  const Decision dns = decide_dns(policy, target.host);
  result.lines.push_back(fmt::format("dns: {} {}: {}{}", target.host,
                                     dns.access == Access::allow ? "resolves" : "does not resolve",
                                     sentence(dns.reason), by_entry(dns)));
  result.lines.push_back(fmt::format(
      "tcp{}: {}{}", target.port ? fmt::format(" {}", *target.port) : "",
      protocol_text(target.protocol),
      target.protocol == Protocol::other ? ", so no name can be read"
                                         : fmt::format(", server name {}", target.host)));
  if (covers_everything(policy)) {
    result.decision = {.access = Access::allow,
                       .reason = Reason::allowed_range,
                       .entry = "0.0.0.0/0, ::/0",
                       .by_address = true};
  } else {
    result.decision = decide_by_name(policy, target.protocol, target.host);
  }
  explain_handling(result.decision, target, result.lines);
  if (result.allowed()) {
    result.lines.push_back(fmt::format(
        "address: whatever {} resolves to must lie outside {}the boundary (addresses that are "
        "not globally routable, and what the operator closed)",
        target.host, policy.denied.empty() ? "" : ranges_text(policy.denied) + " and "));
  }
  if (!covers_everything(policy) && !policy.allowed.empty() && policy.mode == Mode::custom) {
    result.lines.push_back(fmt::format(
        "address: if {} resolves into {}, it passes by address and no name is looked at",
        target.host, ranges_text(policy.allowed)));
  }
  add_verdict(result);
  return result;
}

}  // namespace

std::string_view sentence(Reason reason) {
  switch (reason) {
    case Reason::allow_all:
      return "the policy allows everything";
    case Reason::allowed_range:
      return "the address is in an allowed range";
    case Reason::allowed_domain:
      return "the name is an allowed domain";
    case Reason::dns_open:
      return "names are not restricted by this policy";
    case Reason::deny_all:
      return "the policy denies everything";
    case Reason::boundary:
      return "the operator's boundary closes this address";
    case Reason::denied_range:
      return "the address is in a denied range";
    case Reason::name_not_allowed:
      return "the name is not among the allowed domains";
    case Reason::no_server_name:
      return "the TLS handshake names no host, and \"*\" is not allowed";
    case Reason::not_tls:
      return "not TLS, so no name can be read, and neither a range nor \"*\" allows it";
    case Reason::address_not_allowed:
      return "the address is in no allowed range";
    case Reason::protocol_not_allowed:
      return "only TCP can be allowed by name, and no range allows this address";
  }
  CHECK(false);
}

Result<Explanation> explain(const Policy& policy, const Boundary& boundary, std::string_view text) {
  const auto target = read_target(text);
  if (!target) return std::unexpected(target.error());
  return target->address ? explain_address(policy, boundary, *target)
                         : explain_name(policy, *target);
}

}  // namespace sallyport::policy
