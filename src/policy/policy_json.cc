// SPDX-License-Identifier: Apache-2.0
// Reads the three request forms (mode, custom, legacy) into one Policy and compiles it. Everything
// is validated before anything is built into a Policy that others can see, so a refused request
// changes nothing.
#include "policy/policy_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <unordered_map>

#include "policy/domain_pattern.h"
#include "policy/rule_json.h"

namespace sallyport::policy {
namespace {

constexpr std::size_t kMaxEchoed = 300;  // bytes of a user's own text in a message

std::string_view view(boost::json::string_view text) { return {text.data(), text.size()}; }

// A JSON string for a message: quoted, escaped, cut.
std::string quoted(std::string_view text) {
  const std::string_view head = text.substr(0, kMaxEchoed);
  // A cut inside a UTF-8 sequence would not be valid text: drop the tail of it.
  std::size_t end = head.size();
  if (head.size() < text.size()) {
    while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0U) == 0x80U) --end;
  }
  return serialize_ascii(json::string(head.substr(0, end)));
}

class Builder {
 public:
  explicit Builder(std::string_view root) : root_(root) {}

  Result<PolicyPtr> build(const json::value& value) {
    if (const auto* word = value.if_string()) return mode_word(view(*word), root_);
    const auto* object = value.if_object();
    if (object == nullptr) return refuse(root_, "must be an object, \"allow-all\" or \"deny-all\"");
    const auto* mode = object->if_contains("mode");
    if (mode == nullptr) return custom(*object);
    const std::string at = root_ + ".mode";
    const auto* word = mode->if_string();
    if (word == nullptr) return refuse(at, "must be a string");
    if (*word == "custom") return legacy(*object);
    auto simple = mode_word(view(*word), at);
    if (!simple) return simple;
    for (const char* key : {"allow", "subnets", "allowedDomains", "allowedCIDRs", "deniedCIDRs",
                            "injectionRules", "forwardRules", "responseRules"}) {
      if (object->contains(key)) {
        return refuse(json_path_key(root_, key),
                      fmt::format("cannot be combined with mode {}", quoted(view(*word))));
      }
    }
    return simple;
  }

 private:
  static Result<PolicyPtr> mode_word(std::string_view word, std::string_view at) {
    if (word == "allow-all" || word == "default-allow") return allow_all();
    if (word == "deny-all" || word == "default-deny") return deny_all();
    return refuse(at, "must be one of allow-all, deny-all, custom, default-allow, default-deny");
  }

  Result<PolicyPtr> custom(const json::object& object) {
    if (auto known = only_keys(object, {"allow", "subnets"}, root_); !known)
      return std::unexpected(known.error());
    if (const auto* allow = object.if_contains("allow")) {
      const std::string at = root_ + ".allow";
      auto read = allow->is_array() ? domain_list(allow->get_array(), at)
                  : allow->is_object()
                      ? domain_record(allow->get_object(), at)
                      : refuse(at, "must be an array of domains or an object of domains and rules");
      if (!read) return std::unexpected(read.error());
    }
    if (const auto* subnets = object.if_contains("subnets")) {
      const std::string at = root_ + ".subnets";
      const auto* lists = subnets->if_object();
      if (lists == nullptr) return refuse(at, "must be an object with allow, deny or both");
      if (auto known = only_keys(*lists, {"allow", "deny"}, at); !known)
        return std::unexpected(known.error());
      if (auto read = ranges(*lists, "allow", at, policy_->allowed); !read)
        return std::unexpected(read.error());
      if (auto read = ranges(*lists, "deny", at, policy_->denied); !read)
        return std::unexpected(read.error());
    }
    return compile();
  }

  Result<PolicyPtr> legacy(const json::object& object) {
    for (const char* key : {"allow", "subnets"}) {
      if (object.contains(key))
        return refuse(json_path_key(root_, key), "cannot be combined with mode \"custom\"");
    }
    for (const char* key : {"forwardRules", "responseRules"}) {
      if (object.contains(key)) {
        return refuse(json_path_key(root_, key), "cannot be set in this form; use a rule in allow");
      }
    }
    if (auto known = only_keys(
            object, {"mode", "allowedDomains", "allowedCIDRs", "deniedCIDRs", "injectionRules"},
            root_);
        !known) {
      return std::unexpected(known.error());
    }
    if (const auto* domains = object.if_contains("allowedDomains")) {
      const std::string at = root_ + ".allowedDomains";
      if (!domains->is_array()) return refuse(at, "must be an array of domains");
      if (auto read = domain_list(domains->get_array(), at); !read)
        return std::unexpected(read.error());
    }
    if (auto read = ranges(object, "allowedCIDRs", root_, policy_->allowed); !read)
      return std::unexpected(read.error());
    if (auto read = ranges(object, "deniedCIDRs", root_, policy_->denied); !read)
      return std::unexpected(read.error());
    if (const auto* rules = object.if_contains("injectionRules")) {
      const std::string at = root_ + ".injectionRules";
      if (!rules->is_array()) return refuse(at, "must be an array");
      if (auto read = injection_rules(rules->get_array(), at); !read)
        return std::unexpected(read.error());
    }
    return compile();
  }

  // Gives the entry of a pattern; a second one for the same pattern is an error only where it could
  // carry rules.
  Result<DomainEntry*> entry(std::string_view text, std::string_view at, bool repeatable) {
    auto pattern = parse_domain_pattern(text);
    if (!pattern) return refuse(at, pattern.error().message);
    const auto [place, fresh] = positions_.emplace(*pattern, policy_->domains.size());
    if (!fresh) {
      if (!repeatable)
        return refuse(at,
                      fmt::format("is the same domain as an earlier entry, {}", quoted(*pattern)));
      return &policy_->domains[place->second];
    }
    if (policy_->domains.size() == kMaxDomains)
      return refuse(at, fmt::format("at most {} domains", kMaxDomains));
    policy_->domains.push_back({*std::move(pattern), {}});
    return &policy_->domains.back();
  }

  Result<> domain_list(const json::array& list, const std::string& at) {
    for (std::size_t i = 0; i < list.size(); ++i) {
      const auto* text = list[i].if_string();
      if (text == nullptr)
        return refuse(json_path_index(at, i),
                      "must be a domain; rules need the object form of allow");
      auto added = entry(view(*text), {}, true);
      if (!added) {
        return refuse(fmt::format("{}: {}", json_path_index(at, i), quoted(view(*text))),
                      reason_of(added.error()));
      }
    }
    return {};
  }

  Result<> domain_record(const json::object& record, const std::string& at) {
    for (const auto& [key, value] : record) {
      const std::string_view text = view(key);
      auto added = entry(text, {}, false);
      if (!added) return refuse(fmt::format("{}[{}]", at, quoted(text)), reason_of(added.error()));
      const auto* list = value.if_array();
      if (list != nullptr && list->empty()) continue;  // the common case needs no path
      const std::string path = json_path_key(at, text);
      if (list == nullptr) return refuse(path, "must be an array of rules, [] for none");
      if (list->size() > kMaxRulesPerDomain)
        return refuse(path, fmt::format("at most {} rules", kMaxRulesPerDomain));
      auto rules = rules_from_json(*list, path, budget_);
      if (!rules) return std::unexpected(rules.error());
      (*added)->rules = *std::move(rules);
    }
    return {};
  }

  Result<> injection_rules(const json::array& rules, const std::string& at) {
    std::unordered_map<std::string, std::vector<Rule>> by_pattern;
    for (std::size_t i = 0; i < rules.size(); ++i) {
      const std::string path = json_path_index(at, i);
      const auto* object = rules[i].if_object();
      if (object == nullptr) return refuse(path, "must be an object");
      if (auto known = only_keys(*object, {"domain", "headers", "match"}, path); !known) {
        return std::unexpected(known.error());
      }
      const auto* domain = object->if_contains("domain");
      if (domain == nullptr || !domain->is_string())
        return refuse(path + ".domain", "must be a domain");
      auto pattern = parse_domain_pattern(view(domain->get_string()));
      if (!pattern) {
        return refuse(fmt::format("{}.domain: {}", path, quoted(view(domain->get_string()))),
                      pattern.error().message);
      }
      // A rule never grants access (FW-027), so its domain must be allowed already.
      const bool listed = positions_.contains(*pattern);
      const bool covered = pattern->find('*') == std::string::npos &&
                           std::ranges::any_of(policy_->domains, [&](const DomainEntry& other) {
                             return pattern_matches(other.pattern, *pattern);
                           });
      if (!listed && !covered) return refuse(path + ".domain", "is not among allowedDomains");
      auto rule = injection_from_json(*object, path, budget_);
      if (!rule) return std::unexpected(rule.error());
      auto added = entry(*pattern, path + ".domain", true);
      if (!added) return std::unexpected(added.error());
      if ((*added)->rules.size() == kMaxRulesPerDomain) {
        return refuse(path, fmt::format("at most {} rules for one domain", kMaxRulesPerDomain));
      }
      (*added)->rules.push_back(*std::move(rule));
    }
    return {};
  }

  static Result<> ranges(const json::object& lists, const char* key, const std::string& parent,
                         std::vector<Cidr>& out) {
    const auto* given = lists.if_contains(key);
    if (given == nullptr) return {};
    const std::string at = json_path_key(parent, key);
    const auto* list = given->if_array();
    if (list == nullptr) return refuse(at, "must be an array of address ranges");
    if (list->size() > kMaxRanges) return refuse(at, fmt::format("at most {} ranges", kMaxRanges));
    for (std::size_t i = 0; i < list->size(); ++i) {
      const auto* text = (*list)[i].if_string();
      const auto range = text != nullptr ? Cidr::parse(view(*text)) : std::nullopt;
      if (!range) {
        const std::string shown = text != nullptr ? quoted(view(*text)) : "a value";
        return refuse(json_path_index(at, i),
                      shown + " is not an address or an address range like 10.0.0.0/8");
      }
      out.push_back(*range);
    }
    return {};
  }

  Result<PolicyPtr> compile() {
    policy_->mode = Mode::custom;
    std::vector<std::string_view> patterns;
    patterns.reserve(policy_->domains.size());
    for (const DomainEntry& domain : policy_->domains) patterns.push_back(domain.pattern);
    auto index = DomainIndex::build(patterns);
    if (!index) return refuse(root_ + ".allow", index.error().message);
    policy_->domain_index = *std::move(index);
    policy_->allowed_set = RangeSet(policy_->allowed);
    policy_->allowed_index = RangeIndex(policy_->allowed);
    policy_->denied_set = RangeSet(with_carriers(policy_->denied));
    policy_->denied_index = RangeIndex(policy_->denied);
    return std::shared_ptr<const Policy>(std::move(policy_));
  }

  // A denied IPv4 range also denies the IPv6 addresses that carry its addresses.
  // IPv4-compatible and Teredo addresses need nothing here: no boundary admits them.
  static std::vector<Cidr> with_carriers(std::vector<Cidr> ranges) {
    const std::size_t given = ranges.size();
    for (std::size_t i = 0; i < given; ++i) {
      if (!ranges[i].is_v4()) continue;
      const Address first = ranges[i].first();  // a name of its own: raw() refers into it
      const Address::Raw& four = first.raw();
      Address::Raw nat64 = {0x00, 0x64, 0xff, 0x9b};
      Address::Raw six_to_four = {0x20, 0x02};
      std::copy_n(four.begin() + 12, 4, nat64.begin() + 12);
      std::copy_n(four.begin() + 12, 4, six_to_four.begin() + 2);
      ranges.push_back(*Cidr::make(Address(nat64), 96 + ranges[i].prefix()));
      ranges.push_back(*Cidr::make(Address(six_to_four), 16 + ranges[i].prefix()));
    }
    return ranges;
  }

  static std::string_view reason_of(const Error& error) {
    std::string_view message = error.message;
    if (message.starts_with(": ")) message.remove_prefix(2);  // refuse() without a path of its own
    return message;
  }

  std::string root_;
  std::shared_ptr<Policy> policy_ = std::make_shared<Policy>();
  std::unordered_map<std::string, std::size_t> positions_;
  RuleBudget budget_;
};

PolicyPtr simple(Mode mode) {
  auto policy = std::make_shared<Policy>();
  policy->mode = mode;
  return policy;
}

}  // namespace

Result<PolicyPtr> parse_policy(std::string_view text) {
  auto value = parse_json(text, {.max_bytes = kMaxPolicyBytes});
  if (!value) return std::unexpected(value.error());
  return policy_from_json(*value);
}

Result<PolicyPtr> policy_from_json(const json::value& value, std::string_view at) {
  return Builder(at).build(value);
}

PolicyPtr allow_all() { return simple(Mode::allow_all); }
PolicyPtr deny_all() { return simple(Mode::deny_all); }

}  // namespace sallyport::policy
