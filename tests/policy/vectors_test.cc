// SPDX-License-Identifier: Apache-2.0
// Runs the policy cases of tests/vectors (format: its README.md).
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>

#include "policy/decide.h"
#include "policy/policy_json.h"

namespace sallyport::policy {
namespace {

std::string text_of(const json::value& value) {
  const auto& text = value.as_string();
  return {text.data(), text.size()};
}

Boundary boundary_of(const json::object& spec) {
  const auto list = [&](const char* key) {
    std::vector<Cidr> ranges;
    if (const auto* given = spec.if_contains(key)) {
      for (const auto& text : given->as_array())
        ranges.push_back(Cidr::parse(text_of(text)).value());
    }
    return ranges;
  };
  return {list("closed"), list("opened"), list("attached")};
}

const json::object& lab_boundary() {
  static const json::object lab = {{"opened", {"198.18.0.0/15", "2001:db8::/32"}},
                                   {"attached", {"10.9.0.0/16"}}};
  return lab;
}

Decision ask(const Policy& policy, const Boundary& boundary, const json::object& flow) {
  const std::string kind = text_of(flow.at("flow"));
  std::optional<std::string> name;
  if (const auto* given = flow.if_contains("name")) name = text_of(*given);
  if (kind == "dns") return decide_dns(policy, name.value());
  const std::string to = text_of(flow.at("to"));
  if (kind == "packet") return decide_address(policy, boundary, Address::parse(to).value());
  if (kind == "dial") return decide_dial(policy, boundary, Address::parse(to).value());
  const Protocol protocol = kind == "tls"        ? Protocol::tls
                            : kind == "postgres" ? Protocol::postgres
                                                 : Protocol::other;
  return decide(policy, boundary, {protocol, name, Endpoint::parse(to).value()});
}

void check_flow(const Policy& policy, const Boundary& boundary, const json::object& flow) {
  SCOPED_TRACE(serialize_ascii(flow));
  const Decision decision = ask(policy, boundary, flow);
  EXPECT_EQ(decision.access == Access::allow ? "allow" : "deny", text_of(flow.at("access")));
  EXPECT_EQ(to_string(decision.reason), text_of(flow.at("reason")));
  if (const auto* entry = flow.if_contains("entry")) EXPECT_EQ(decision.entry, text_of(*entry));
  if (const auto* by_address = flow.if_contains("by_address"))
    EXPECT_EQ(decision.by_address, by_address->as_bool());
  if (const auto* ignored = flow.if_contains("rules_ignored"))
    EXPECT_EQ(decision.rules_ignored, ignored->as_bool());
  if (const auto* rules = flow.if_contains("rules")) {
    EXPECT_EQ(
        decision.domain == nullptr ? 0 : static_cast<std::int64_t>(decision.domain->rules.size()),
        rules->as_int64());
  }
}

// FW-028: access is the same with all rules taken away.
void check_rules_change_no_access(const Policy& policy, const Boundary& boundary,
                                  const json::object& flow) {
  auto value = render_redacted(policy);
  if (auto* allow = value.as_object().if_contains("allow");
      allow != nullptr && allow->is_object()) {
    for (auto& entry : allow->get_object()) entry.value() = json::array{};
  }
  const auto bare = policy_from_json(value);
  ASSERT_TRUE(bare);
  const Decision with = ask(policy, boundary, flow);
  const Decision without = ask(**bare, boundary, flow);
  EXPECT_EQ(with.access, without.access);
  EXPECT_EQ(with.reason, without.reason);
  EXPECT_EQ(with.entry, without.entry);
}

class Vectors : public testing::TestWithParam<const char*> {};

TEST_P(Vectors, hold) {
  std::ifstream in(std::string(SALLYPORT_SOURCE_DIR "/tests/vectors/") + GetParam() + ".json");
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  const auto file = parse_json(text);
  ASSERT_TRUE(file) << file.error().message;
  const auto& cases = file->at("cases").as_array();
  ASSERT_FALSE(cases.empty());
  for (const auto& each : cases) {
    const auto& spec = each.as_object();
    SCOPED_TRACE(text_of(spec.at("name")));
    const auto policy = policy_from_json(spec.at("policy"));
    if (const auto* refused = spec.if_contains("refused")) {
      ASSERT_FALSE(policy) << "was accepted";
      EXPECT_EQ(policy.error().code, Code::invalid);
      EXPECT_TRUE(policy.error().message.starts_with(text_of(*refused))) << policy.error().message;
      continue;
    }
    ASSERT_TRUE(policy) << policy.error().message;
    const auto* own = spec.if_contains("boundary");
    const Boundary boundary = boundary_of(own != nullptr ? own->as_object() : lab_boundary());
    for (const auto& flow : spec.at("flows").as_array()) {
      check_flow(**policy, boundary, flow.as_object());
      check_rules_change_no_access(**policy, boundary, flow.as_object());
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Policy, Vectors,
                         testing::Values("modes", "patterns", "ranges", "dns", "catch_all",
                                         "postgres", "legacy", "refusals"),
                         [](const auto& tested) { return std::string(tested.param); });

}  // namespace
}  // namespace sallyport::policy
