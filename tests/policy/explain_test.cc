// SPDX-License-Identifier: Apache-2.0
#include "policy/explain.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "policy/policy_json.h"

namespace sallyport::policy {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

Explanation of(std::string_view policy, std::string_view target) {
  const auto parsed = parse_policy(policy);
  EXPECT_TRUE(parsed) << (parsed ? "" : parsed.error().message);
  auto result = explain(**parsed, Boundary(), target);
  EXPECT_TRUE(result) << (result ? "" : result.error().message);
  return result ? *std::move(result) : Explanation{};
}

constexpr std::string_view kApi = R"({"allow":{"api.example.com":[
  {"match":{"path":{"startsWith":"/v1"}},"transform":[{"headers":{"Authorization":"s3cret"}}]},{"match":{"method":["POST"]},"forwardURL":"https://p.example"}],
  "*.cdn.example":[]},"subnets":{"allow":["93.184.216.0/24"],"deny":["8.8.8.0/24"]}})";

TEST(Explain, an_allowed_url_names_its_entry_and_what_happens_to_the_request) {
  const auto got = of(kApi, "https://api.example.com/v1/chat?x=1");
  EXPECT_TRUE(got.allowed());
  EXPECT_EQ(got.lines.front(),
            "policy: custom; allowed: 2 domain(s), 1 range(s); denied: 1 range(s)");
  EXPECT_THAT(
      got.lines,
      Contains(
          R"(dns: api.example.com resolves: the name is an allowed domain (entry "api.example.com"))"));
  EXPECT_THAT(got.lines, Contains("tcp 443: TLS, server name api.example.com"));
  EXPECT_THAT(got.lines,
              Contains("handling: TLS is terminated, because api.example.com has 2 rule(s)"));
  EXPECT_THAT(got.lines, Contains("request: GET /v1/chat?x=1 matches rule 0 (transform)"));
  EXPECT_EQ(got.lines.back(),
            R"(allowed: the name is an allowed domain (entry "api.example.com") [allowed_domain])");
  for (const auto& line : got.lines) EXPECT_THAT(line, Not(HasSubstr("s3cret")));
  EXPECT_THAT(of(kApi, "https://api.example.com").lines,
              Contains(HasSubstr("GET / without special headers matches no rule")));
}

TEST(Explain, a_domain_without_rules_is_never_decrypted) {
  const auto got = of(kApi, "x.cdn.example");
  EXPECT_TRUE(got.allowed());
  EXPECT_THAT(got.lines, Contains("handling: none; TLS passes through, never decrypted"));
}

// FW-076: plain HTTP to an allowed domain.
TEST(Explain, plain_http_is_denied_because_no_name_can_be_read) {
  for (const char* target :
       {"http://api.example.com/", "api.example.com:80", "ssh://api.example.com"}) {
    const auto got = of(kApi, target);
    EXPECT_FALSE(got.allowed());
    EXPECT_THAT(got.lines, Contains(HasSubstr("so no name can be read")));
    EXPECT_THAT(got.lines.back(), HasSubstr("[not_tls]"));
    EXPECT_THAT(got.lines, Contains("address: if api.example.com resolves into 93.184.216.0/24, it "
                                    "passes by address and no name is looked at"));
  }
}

TEST(Explain, a_name_that_is_not_allowed_does_not_even_resolve) {
  const auto got = of(kApi, "https://evil.test/");
  EXPECT_FALSE(got.allowed());
  EXPECT_THAT(
      got.lines,
      Contains("dns: evil.test does not resolve: the name is not among the allowed domains"));
  EXPECT_THAT(got.lines.back(), HasSubstr("[name_not_allowed]"));
}

TEST(Explain, addresses_are_judged_by_boundary_and_ranges) {
  EXPECT_THAT(
      of(kApi, "93.184.216.34").lines.back(),
      HasSubstr(R"(allowed: the address is in an allowed range (entry "93.184.216.0/24"))"));
  EXPECT_THAT(of(kApi, "8.8.8.8:53").lines.back(),
              HasSubstr(R"((entry "8.8.8.0/24") [denied_range])"));
  EXPECT_THAT(of(kApi, "8.8.8.8:53").lines, Contains(StartsWith("dns: port 53")));
  EXPECT_THAT(of(kApi, "http://169.254.169.254/latest").lines.back(), HasSubstr("[boundary]"));
  EXPECT_THAT(of(kApi, "[2a00:1::1]:22").lines.back(), HasSubstr("[not_tls]"));
  EXPECT_THAT(of(kApi, "2a00:1::1").lines.back(), HasSubstr("[no_server_name]"));
  EXPECT_THAT(of(kApi, "64:ff9b::a9fe:a9fe").lines,
              Contains("address: 64:ff9b::a9fe:a9fe carries 169.254.169.254, both are judged"));
  EXPECT_FALSE(of(R"({"subnets":{"allow":["10.0.0.0/8"]}})", "93.184.216.34").allowed());
}

TEST(Explain, a_lone_star_passes_nameless_tcp_only) {
  const auto got =
      of(R"({"allow":{"*":[{"forwardURL":"https://p.example"}]}})", "ssh://93.184.216.34");
  EXPECT_TRUE(got.allowed());
  EXPECT_THAT(got.lines, Contains(StartsWith("tcp only:")));
  EXPECT_THAT(got.lines, Contains("handling: none; rules need a readable name"));
}

// FW-097, D-19
TEST(Explain, postgres_ignores_rules) {
  const auto got = of(kApi, "postgres://user:pw@api.example.com/db");
  EXPECT_TRUE(got.allowed());
  EXPECT_THAT(got.lines, Contains("tcp 5432: Postgres with TLS, server name api.example.com"));
  EXPECT_THAT(got.lines, Contains("handling: none; rules do not apply over Postgres"));
}

TEST(Explain, the_simple_modes_and_the_whole_internet) {
  EXPECT_TRUE(of(R"("allow-all")", "http://any.example").allowed());
  EXPECT_FALSE(of(R"("allow-all")", "10.0.0.1").allowed());
  EXPECT_FALSE(of(R"("deny-all")", "any.example").allowed());
  EXPECT_EQ(of("{}", "any.example").lines.front(),
            "policy: custom with nothing allowed, which is deny-all");
  EXPECT_TRUE(
      of(R"({"allow":["a.b"],"subnets":{"allow":["0.0.0.0/0","::/0"]}})", "http://any.example")
          .allowed());
}

TEST(Explain, a_target_that_is_none_is_refused) {
  for (const char* bad : {"", "a b", "gopher://x.example", "x.example:0", "x.example:99999",
                          "x.example:", "*.example.com", "https://", "[::1", "http://[::1]x/"}) {
    EXPECT_FALSE(explain(*allow_all(), Boundary(), bad)) << bad;
  }
}

TEST(Explain, a_u_label_is_looked_up_as_its_a_label) {
  EXPECT_TRUE(of(R"({"allow":["b\u00fccher.example"]})", "https://b\u00fccher.example/").allowed());
}

}  // namespace
}  // namespace sallyport::policy
