// SPDX-License-Identifier: Apache-2.0
#include "policy/decide.h"

#include <gtest/gtest.h>

#include "policy/policy_json.h"

namespace sallyport::policy {
namespace {

PolicyPtr policy(std::string_view text) {
  auto parsed = parse_policy(text);
  EXPECT_TRUE(parsed) << (parsed ? "" : parsed.error().message);
  return parsed ? *parsed : deny_all();
}

Address address(std::string_view text) { return Address::parse(text).value(); }

Decision tls(const PolicyPtr& p, std::string_view name, std::string_view to = "93.184.216.34") {
  return decide(
      *p, Boundary(),
      {.protocol = Protocol::tls, .name = std::string(name), .destination = {address(to), 443}});
}
Decision nameless(const PolicyPtr& p, Protocol protocol, std::string_view to = "93.184.216.34") {
  return decide(*p, Boundary(),
                {.protocol = protocol, .name = {}, .destination = {address(to), 443}});
}

// FW-007, FW-020, FW-074: a name admits, everything else is denied.
TEST(Decide, only_an_allowed_name_passes) {
  const auto p = policy(R"({"allow":["api.example.com"]})");
  EXPECT_EQ(tls(p, "api.example.com").reason, Reason::allowed_domain);
  EXPECT_FALSE(tls(p, "api.example.com").by_address);
  EXPECT_EQ(tls(p, "example.com").reason, Reason::name_not_allowed);
  EXPECT_EQ(nameless(p, Protocol::tls).reason, Reason::no_server_name);
  EXPECT_EQ(nameless(p, Protocol::other).reason, Reason::not_tls);
}

// FW-060 to FW-064: an empty allow side denies everything, DNS included.
TEST(Decide, an_empty_policy_denies_everything) {
  for (const char* text : {"{}", R"({"allow":{}})", R"({"allow":[]})", R"({"subnets":{}})",
                           R"({"subnets":{"deny":["10.0.0.0/8"]}})", R"({"mode":"deny-all"})",
                           R"({"mode":"custom"})"}) {
    const auto p = policy(text);
    EXPECT_TRUE(p->denies_everything()) << text;
    EXPECT_EQ(tls(p, "example.com").reason, Reason::deny_all) << text;
    EXPECT_EQ(nameless(p, Protocol::other).reason, Reason::deny_all) << text;
    EXPECT_EQ(decide_dns(*p, "example.com").reason, Reason::deny_all) << text;
    EXPECT_EQ(decide_address(*p, Boundary(), address("93.184.216.34")).reason, Reason::deny_all)
        << text;
  }
}

// D-18: one flow that stands in every list; taken out of the winning list, the next one decides.
TEST(Decide, lists_are_asked_in_their_order) {
  const Address to = address("93.184.216.34");
  const Boundary closed({*Cidr::parse("93.184.216.0/24")}, {}, {});
  const auto reason = [&](const char* text, const Boundary& boundary) {
    return decide(*policy(text), boundary,
                  {.protocol = Protocol::tls, .name = "api.example.com", .destination = {to, 443}})
        .reason;
  };
  const char* every = R"({"allow":["api.example.com"],
                          "subnets":{"allow":["93.184.216.34"],"deny":["93.184.0.0/16"]}})";
  EXPECT_EQ(reason(every, closed), Reason::boundary);
  EXPECT_EQ(reason(every, Boundary()), Reason::denied_range);
  EXPECT_EQ(
      reason(R"({"allow":["api.example.com"],"subnets":{"allow":["93.184.216.34"]}})", Boundary()),
      Reason::allowed_range);
  EXPECT_EQ(
      reason(R"({"allow":["api.example.com"],"subnets":{"allow":["93.184.216.35"]}})", Boundary()),
      Reason::allowed_domain);
  EXPECT_EQ(reason(R"({"allow":["www.example.com"]})", Boundary()), Reason::name_not_allowed);
}

}  // namespace
}  // namespace sallyport::policy
