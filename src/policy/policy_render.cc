// SPDX-License-Identifier: Apache-2.0
// The way back of policy_json.h: the request grammar with or without secrets, and the response
// grammar (spec 2.3).
#include <string>

#include "policy/match_json.h"
#include "policy/policy_json.h"
#include "policy/rule_json.h"

namespace sallyport::policy {
namespace {

json::string text_of(std::string_view text) { return json::string(text.data(), text.size()); }

json::array ranges_of(const std::vector<Cidr>& ranges) {
  json::array array;
  for (const Cidr& range : ranges) array.push_back(text_of(range.to_string()));
  return array;
}

json::value request(const Policy& policy, Secrets secrets) {
  if (policy.mode == Mode::allow_all) return json::object{{"mode", "allow-all"}};
  if (policy.mode == Mode::deny_all) return json::object{{"mode", "deny-all"}};
  json::object object;
  if (policy.has_rules()) {
    json::object allow;
    allow.reserve(policy.domains.size());
    for (const DomainEntry& domain : policy.domains) {
      json::array rules;
      for (const Rule& rule : domain.rules) rules.push_back(render_rule(rule, secrets));
      allow[domain.pattern] = std::move(rules);
    }
    object["allow"] = std::move(allow);
  } else if (!policy.domains.empty()) {
    json::array allow;
    allow.reserve(policy.domains.size());
    for (const DomainEntry& domain : policy.domains) allow.push_back(text_of(domain.pattern));
    object["allow"] = std::move(allow);
  }
  json::object subnets;
  if (!policy.allowed.empty()) subnets["allow"] = ranges_of(policy.allowed);
  if (!policy.denied.empty()) subnets["deny"] = ranges_of(policy.denied);
  if (!subnets.empty()) object["subnets"] = std::move(subnets);
  return object;
}

json::array header_names(const std::vector<HeaderValue>& headers) {
  json::array names;
  for (const HeaderValue& header : headers) names.push_back(text_of(header.name));
  return names;
}

}  // namespace

json::value request_json(const Policy& policy) { return request(policy, Secrets::revealed); }

Secret render_request(const Policy& policy) {
  return Secret(serialize_ascii(request_json(policy)));
}

json::value render_redacted(const Policy& policy) { return request(policy, Secrets::redacted); }

json::value render_response(const Policy& policy) {
  if (policy.mode != Mode::custom) return request(policy, Secrets::redacted);
  json::object object{{"mode", "custom"}};
  json::array domains;
  json::array injections;
  json::array forwards;
  json::array responses;
  for (const DomainEntry& domain : policy.domains) {
    domains.push_back(text_of(domain.pattern));
    for (const Rule& rule : domain.rules) {
      json::object entry{{"domain", text_of(domain.pattern)}};
      json::array* list = &injections;
      if (const auto* transform = std::get_if<Transform>(&rule.action)) {
        entry["headerNames"] = header_names(transform->headers);
      } else if (const auto* forward = std::get_if<Forward>(&rule.action)) {
        entry["forwardURL"] = text_of(forward->url);
        list = &forwards;
      } else {
        const auto& response = std::get<Response>(rule.action);
        entry["statusCode"] = response.status;
        if (!response.headers.empty()) entry["headerNames"] = header_names(response.headers);
        if (response.content_type) entry["contentType"] = text_of(*response.content_type);
        list = &responses;
      }
      if (rule.match) entry["match"] = render_match(*rule.match);
      list->push_back(std::move(entry));
    }
  }
  if (!domains.empty()) object["allowedDomains"] = std::move(domains);
  if (!policy.allowed.empty()) object["allowedCIDRs"] = ranges_of(policy.allowed);
  if (!policy.denied.empty()) object["deniedCIDRs"] = ranges_of(policy.denied);
  if (!injections.empty()) object["injectionRules"] = std::move(injections);
  if (!forwards.empty()) object["forwardRules"] = std::move(forwards);
  if (!responses.empty()) object["responseRules"] = std::move(responses);
  return object;
}

}  // namespace sallyport::policy
