// SPDX-License-Identifier: Apache-2.0
// The order of D-18, spelled out once per question. Each function ends in deny.
#include "policy/decide.h"

#include <algorithm>

#include "base/check.h"
#include "base/host_name.h"

namespace sallyport::policy {
namespace {

Decision deny(Reason reason, std::string entry = {}) {
  return {.access = Access::deny, .reason = reason, .entry = std::move(entry)};
}

// The part that needs no name. Nothing: the address alone decides nothing, go on with the domains.
std::optional<Decision> decide_by_address(const Policy& policy, const Boundary& boundary,
                                          const Address& address) {
  if (!boundary.admits(address)) return deny(Reason::boundary);
  if (policy.mode == Mode::deny_all) return deny(Reason::deny_all);
  if (policy.mode == Mode::allow_all) {
    return Decision{.access = Access::allow, .reason = Reason::allow_all, .by_address = true};
  }
  if (policy.denied_set.contains(address)) {
    auto position = policy.denied_index.find(address);
    if (!position) {
      // Denied in one of its IPv6 disguises.
      const auto carried = address.embedded_v4();
      if (carried) position = policy.denied_index.find(*carried);
    }
    return deny(Reason::denied_range,
                position ? policy.denied[*position].to_string() : std::string());
  }
  if (policy.allowed_set.contains(address)) {
    const auto position = policy.allowed_index.find(address);
    return Decision{.access = Access::allow,
                    .reason = Reason::allowed_range,
                    .entry = position ? policy.allowed[*position].to_string() : std::string(),
                    .by_address = true};
  }
  if (policy.denies_everything()) return deny(Reason::deny_all);
  return std::nullopt;
}

}  // namespace

std::string_view to_string(Reason reason) {
  switch (reason) {
    case Reason::allow_all:
      return "allow_all";
    case Reason::allowed_range:
      return "allowed_range";
    case Reason::allowed_domain:
      return "allowed_domain";
    case Reason::dns_open:
      return "dns_open";
    case Reason::deny_all:
      return "deny_all";
    case Reason::boundary:
      return "boundary";
    case Reason::denied_range:
      return "denied_range";
    case Reason::name_not_allowed:
      return "name_not_allowed";
    case Reason::no_server_name:
      return "no_server_name";
    case Reason::not_tls:
      return "not_tls";
    case Reason::address_not_allowed:
      return "address_not_allowed";
    case Reason::protocol_not_allowed:
      return "protocol_not_allowed";
  }
  CHECK(false);
}

Decision decide(const Policy& policy, const Boundary& boundary, const Flow& flow) {
  if (auto decided = decide_by_address(policy, boundary, flow.destination.address))
    return *std::move(decided);
  return decide_by_name(policy, flow.protocol, flow.name);
}

Decision decide_by_name(const Policy& policy, Protocol protocol,
                        const std::optional<std::string>& given) {
  if (policy.denies_everything()) return deny(Reason::deny_all);
  if (policy.mode == Mode::allow_all) {
    return {.access = Access::allow, .reason = Reason::allow_all, .by_address = true};
  }
  if (policy.domains.empty()) return deny(Reason::address_not_allowed);
  // Only a TLS handshake names a host that we believe (FW-074).
  // In normal form once more: no spelling may miss the specific entry and meet the catch-all
  //
  const auto name = protocol != Protocol::other && given ? normal_host_name(*given) : std::nullopt;
  if (name) {
    const auto position = policy.domain_index.find(*name);
    if (!position) return deny(Reason::name_not_allowed);
    const DomainEntry& entry = policy.domains[*position];
    const bool postgres = protocol == Protocol::postgres;
    return {.access = Access::allow,
            .reason = Reason::allowed_domain,
            .entry = entry.pattern,
            .by_address = false,
            .domain = postgres ? nullptr : &entry,
            .rules_ignored = postgres && !entry.rules.empty()};
  }
  if (const auto all = policy.domain_index.catch_all()) {
    const DomainEntry& entry = policy.domains[*all];
    return {.access = Access::allow,
            .reason = Reason::allowed_domain,
            .entry = entry.pattern,
            .by_address = true,
            .rules_ignored = !entry.rules.empty()};
  }
  return deny(protocol == Protocol::other ? Reason::not_tls : Reason::no_server_name);
}

Decision decide_dial(const Policy& policy, const Boundary& boundary, const Address& address) {
  if (auto decided = decide_by_address(policy, boundary, address)) return *std::move(decided);
  return {.access = Access::allow, .reason = Reason::allowed_domain};
}

Decision decide_dns(const Policy& policy, std::string_view name) {
  if (policy.denies_everything()) return deny(Reason::deny_all);
  if (policy.mode == Mode::allow_all || policy.domains.empty()) {
    return {.access = Access::allow, .reason = Reason::dns_open};  // D-17
  }
  const auto wanted = normal_host_name(name);
  const auto position = wanted ? policy.domain_index.find(*wanted) : std::nullopt;
  if (!position) return deny(Reason::name_not_allowed);
  return {.access = Access::allow,
          .reason = Reason::allowed_domain,
          .entry = policy.domains[*position].pattern};
}

Decision decide_address(const Policy& policy, const Boundary& boundary, const Address& address) {
  if (auto decided = decide_by_address(policy, boundary, address)) return *std::move(decided);
  // With domains, TCP may still be admitted by its name; other protocols carry none that we read.
  return deny(policy.domains.empty() ? Reason::address_not_allowed : Reason::protocol_not_allowed);
}

const Rule* choose_rule(const DomainEntry& domain, const RequestView& request) {
  for (const Rule& rule : domain.rules) {
    const bool credential = std::holds_alternative<Transform>(rule.action);
    if (!rule.match ||
        matches(*rule.match, request, credential ? PathForms::both : PathForms::either))
      return &rule;
  }
  return nullptr;
}

}  // namespace sallyport::policy
