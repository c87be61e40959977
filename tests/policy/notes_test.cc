// SPDX-License-Identifier: Apache-2.0
#include "policy/notes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "policy/policy_json.h"

namespace sallyport::policy {
namespace {

// R-060: a prefix has no segment boundary.
TEST(Notes, name_the_rule_they_are_about) {
  const auto policy = parse_policy(
      R"({"allow":{"a.b":[{"match":{"path":{"startsWith":"/x/"}},"forwardURL":"https://p.example"},
    {"match":{"path":{"startsWith":"/x"}},"forwardURL":"https://p.example"},{"match":{"path":{"exact":"/x?y"}},"forwardURL":"https://p.example"}]}})");
  EXPECT_THAT(notes(**policy),
              testing::ElementsAre(
                  testing::HasSubstr("a.b: rule 1: startsWith"),
                  testing::HasSubstr("a.b: rule 2: a path is compared without its query")));
}

TEST(Notes, are_few_and_none_for_plain_policies) {
  EXPECT_TRUE(notes(*allow_all()).empty());
  EXPECT_TRUE(notes(*deny_all()).empty());
  EXPECT_TRUE(notes(**parse_policy(R"({"allow":["a.b","*.c.d","c.d"]})")).empty());
  json::array many;
  for (int i = 0; i < 100; ++i)
    many.push_back(json::string("*.d" + std::to_string(i) + ".example"));
  EXPECT_EQ(notes(*policy_from_json(json::object{{"allow", many}}).value()).size(), 20U);
}

}  // namespace
}  // namespace sallyport::policy
