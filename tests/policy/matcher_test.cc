// SPDX-License-Identifier: Apache-2.0
#include "policy/matcher.h"

#include <gtest/gtest.h>

#include "policy/decide.h"
#include "policy/policy_json.h"

namespace sallyport::policy {
namespace {

using Headers = std::vector<RequestView::Header>;

// One domain with one rule whose match is given; does it match this request?
struct Probe {
  PolicyPtr policy;

  explicit Probe(std::string_view match,
                 std::string_view action = R"("transform":[{"headers":{"X":"y"}}])") {
    auto parsed = parse_policy(R"({"allow":{"a.b":[{"match":)" + std::string(match) + "," +
                               std::string(action) + "}]}}");
    EXPECT_TRUE(parsed) << (parsed ? "" : parsed.error().message);
    if (parsed) policy = *parsed;
  }
  bool operator()(std::string_view target, std::string_view method = "GET",
                  const Headers& headers = {}) const {
    return choose_rule(policy->domains[0], RequestView(method, target, headers)) != nullptr;
  }
};

// FW-150: every dimension must hold.
TEST(Matcher, all_dimensions_given_must_hold) {
  const Probe match(
      R"({"path":{"exact":"/v1"},"method":["POST"],"queryString":[{"key":{"exact":"q"}}],"headers":[{"key":{"exact":"h"}}]})");
  const Headers h = {{"H", "1"}};
  EXPECT_TRUE(match("/v1?q=1", "POST", h));
  EXPECT_FALSE(match("/v2?q=1", "POST", h));
  EXPECT_FALSE(match("/v1?q=1", "GET", h));
  EXPECT_FALSE(match("/v1", "POST", h));
  EXPECT_FALSE(match("/v1?q=1", "POST"));
}

// FW-151, FW-152, FW-153, FW-104: order, first match, no match.
TEST(Matcher, the_first_matching_rule_applies_and_one_without_match_shadows_the_rest) {
  const auto policy = parse_policy(R"({"allow":{"a.b":[
    {"match":{"path":{"startsWith":"/a"}},"transform":[{"headers":{"X":"0"}}]},
    {"match":{"path":{"startsWith":"/ab"}},"transform":[{"headers":{"X":"1"}}]},
    {"transform":[{"headers":{"X":"2"}}]},
    {"match":{"path":{"exact":"/c"}},"transform":[{"headers":{"X":"3"}}]}],
    "c.d":[{"match":{"path":{"exact":"/c"}},"transform":[{"headers":{"X":"3"}}]}]}})")
                          .value();
  const auto chosen = [&](std::string_view target) {
    return choose_rule(policy->domains[0], RequestView("GET", target, {})) -
           policy->domains[0].rules.data();
  };
  EXPECT_EQ(chosen("/ab"), 0);
  EXPECT_EQ(chosen("/c"), 2);
  EXPECT_EQ(chosen("/"), 2);
  EXPECT_EQ(choose_rule(policy->domains[1], RequestView("GET", "/d", {})), nullptr);
}

// FW-155, FW-159, FW-160, R-060: case, exact and prefix.
TEST(Matcher, paths_are_compared_with_case_and_a_prefix_has_no_segment_boundary) {
  EXPECT_TRUE(Probe(R"({"path":{"exact":"/v1/chat"}})")("/v1/chat?x/../y"));
  EXPECT_FALSE(Probe(R"({"path":{"exact":"/v1/chat"}})")("/V1/chat"));
  EXPECT_FALSE(Probe(R"({"path":{"exact":"/v1/chat"}})")("/v1/chat/"));
  const Probe prefix(R"({"path":{"startsWith":"/repos/acme"}})");
  EXPECT_TRUE(prefix("/repos/acme"));
  EXPECT_TRUE(prefix("/repos/acme/x"));
  EXPECT_TRUE(prefix("/repos/acme-evil"));
  EXPECT_FALSE(prefix("/repos/acm"));
}

// FW-156, FW-159: any of the methods, with case.
TEST(Matcher, methods_are_alternatives_with_case) {
  const Probe match(R"({"method":["GET","POST"]})");
  EXPECT_TRUE(match("/", "GET"));
  EXPECT_TRUE(match("/", "POST"));
  EXPECT_FALSE(match("/", "PUT"));
  EXPECT_FALSE(match("/", "get"));
}

// FW-161, R-061: RE2, unanchored, without the query.
TEST(Matcher, expressions_are_searched_in_the_path_without_its_query) {
  EXPECT_TRUE(Probe(R"({"path":{"regex":"v1"}})")("/api/v1/x"));
  EXPECT_TRUE(Probe(R"({"path":{"regex":"^/v1$"}})")("/v1?x=1"));
  EXPECT_FALSE(Probe(R"({"path":{"regex":"^/v1$"}})")("/v1/"));
  EXPECT_TRUE(Probe(R"({"path":{"regex":""}})")("/anything"));
  EXPECT_TRUE(Probe(R"({"headers":[{"value":{"regex":"a.*b"}}]})")("/", "GET", {{"x", "1a22b3"}}));
  EXPECT_TRUE(Probe(R"({"headers":[{"key":{"regex":"^x-e"}}]})")("/", "GET", {{"X-Env", ""}}));
}

// R-061: bytes that are no UTF-8 match no character, and crash nothing.
TEST(Matcher, bytes_that_are_not_utf8_match_no_character) {
  const Probe whole(R"({"path":{"regex":"^/.*z$"}})");
  EXPECT_TRUE(whole("/caf\xc3\xa9z"));
  EXPECT_FALSE(whole("/caf\xffz"));
  EXPECT_TRUE(Probe(R"({"path":{"regex":"caf"}})")("/caf\xff"));
}

// R-062: linear on what makes back-tracking engines explode.
TEST(Matcher, nested_repetition_is_linear) {
  const Probe match(R"({"path":{"regex":"(a+)+$"}})");
  EXPECT_FALSE(match("/" + std::string(64 << 10, 'a') + "!"));
  EXPECT_TRUE(match("/" + std::string(64 << 10, 'a')));
}

// FW-157, R-063: the query.
TEST(Matcher, query_parameters_are_decoded_and_compared_with_case) {
  const Probe match(R"({"queryString":[{"key":{"exact":"q"},"value":{"exact":"a b"}}]})");
  for (const char* yes :
       {"/?q=a+b", "/?q=a%20b", "/?q=x&q=a%20b", "/?%71=a%20b", "/?q=a b", "/?&&q=a+b&"})
    EXPECT_TRUE(match(yes)) << yes;
  for (const char* no : {"/?q=a%2Bb", "/?q", "/?q=", "/?Q=a%20b", "/?x=1;q=a%20b", "/?", "/??q=a+b",
                         "/", "/?q=A+b", "/?q=a%20b#f"}) {
    EXPECT_FALSE(match(no)) << no;
  }
}

// FW-162: key alone is presence, value alone is any key.
TEST(Matcher, a_key_alone_asks_for_presence_and_a_value_alone_for_any_key) {
  const Probe key(R"({"queryString":[{"key":{"exact":"q"}}]})");
  EXPECT_TRUE(key("/?q"));
  EXPECT_TRUE(key("/?q="));
  EXPECT_TRUE(key("/?x=1&q=5"));
  EXPECT_FALSE(key("/?qq=1"));
  const Probe value(R"({"queryString":[{"value":{"exact":"5"}}]})");
  EXPECT_TRUE(value("/?anything=5"));
  EXPECT_FALSE(value("/?5=anything"));
}

// FW-157, FW-158: entries are ANDed, each by any parameter; key and value must be of one parameter.
TEST(Matcher, entries_are_anded_and_key_and_value_belong_together) {
  const Probe both(
      R"({"queryString":[{"key":{"exact":"a"},"value":{"exact":"1"}},{"key":{"exact":"b"}}]})");
  EXPECT_TRUE(both("/?b=9&a=1"));
  EXPECT_FALSE(both("/?a=1"));
  EXPECT_FALSE(both("/?a=2&b=1"));
}

// FW-158, FW-159, R-064: headers.
TEST(Matcher, header_names_have_no_case_values_do_and_any_line_will_do) {
  const Probe match(R"({"headers":[{"key":{"exact":"X-Env"},"value":{"exact":"prod"}}]})");
  EXPECT_TRUE(match("/", "GET", {{"x-env", "prod"}}));
  EXPECT_TRUE(match("/", "GET", {{"X-ENV", "dev"}, {"X-Env", "prod"}}));
  EXPECT_TRUE(match("/", "GET", {{"X-Env", "prod"}, {"X-Env", "dev"}}));
  EXPECT_FALSE(match("/", "GET", {{"X-Env", "Prod"}}));
  EXPECT_FALSE(match("/", "GET", {{"X-Env", ""}}));
  EXPECT_FALSE(match("/", "GET", {{"X-Env", "dev, prod"}}));  // lines are not split at commas
  EXPECT_TRUE(Probe(R"({"headers":[{"key":{"startsWith":"x-e"}}]})")("/", "GET", {{"X-Env", ""}}));
}

// FW-163: nothing of one request reaches the next.
TEST(Matcher, matching_is_per_request) {
  const Probe match(R"({"path":{"exact":"/a"}})");
  EXPECT_TRUE(match("/a"));
  EXPECT_FALSE(match("/b"));
  EXPECT_TRUE(match("/a"));
}

// RFC 3986 s5.2.4 and s6.2.2; R-059.
TEST(RequestView, the_canonical_path_decodes_unreserved_bytes_and_removes_dot_segments) {
  const auto canonical = [](std::string_view target) {
    return std::string(RequestView("GET", target, {}).canonical_path());
  };
  EXPECT_EQ(canonical("/v1/chat"), "/v1/chat");
  EXPECT_EQ(canonical("/v1/./chat"), "/v1/chat");
  EXPECT_EQ(canonical("/v1/x/../chat"), "/v1/chat");
  EXPECT_EQ(canonical("/v1/x/%2e%2E/chat"), "/v1/chat");
  EXPECT_EQ(canonical("/%76%31/chat"), "/v1/chat");
  EXPECT_EQ(canonical("/v1%2fchat"), "/v1%2Fchat");
  EXPECT_EQ(canonical("/v1//chat"), "/v1//chat");
  EXPECT_EQ(canonical("//host/v1/chat"), "//host/v1/chat");
  EXPECT_EQ(canonical("/../../a"), "/a");
  EXPECT_EQ(canonical("/a/.."), "/");
  EXPECT_EQ(canonical("/a/b/."), "/a/b/");
  EXPECT_EQ(canonical("/a%zz%4"), "/a%zz%4");
  EXPECT_EQ(canonical("/%252e"), "/%252e");  // decoded once
  EXPECT_EQ(canonical("/..a/.b"), "/..a/.b");
  EXPECT_EQ(canonical("*"), "*");
  EXPECT_EQ(canonical("?x"), "");
  EXPECT_EQ(canonical(""), "");
  EXPECT_EQ(canonical("/v1/chat?a/../b"), "/v1/chat");
}

// D-11, FW-164, R-059: a credential wants both forms to match, forwarding and answering either.
TEST(Matcher, a_transform_needs_both_forms_of_the_path_and_other_rules_either) {
  const char* match = R"({"path":{"exact":"/v1/chat"}})";
  const Probe transform(match);
  const Probe forward(match, R"("forwardURL":"https://p.example")");
  const Probe response(match, R"("response":{"statusCode":403})");
  for (const char* odd : {"/v1/x/../chat", "/v1/./chat", "/%76%31/chat", "/v1/x/%2e%2e/chat"}) {
    EXPECT_FALSE(transform(odd)) << odd;
    EXPECT_TRUE(forward(odd)) << odd;
    EXPECT_TRUE(response(odd)) << odd;
  }
  for (const char* other :
       {"/v1//chat", "/v1/chat/", "/V1/chat", "/v1/chat;p=1", "//host/v1/chat", "/v1\\chat"}) {
    EXPECT_FALSE(transform(other)) << other;
    EXPECT_FALSE(forward(other)) << other;
  }
  const Probe prefix(R"({"path":{"startsWith":"/public/"}})");
  EXPECT_TRUE(prefix("/public/a"));
  EXPECT_FALSE(prefix("/public/../secret"));
}

}  // namespace
}  // namespace sallyport::policy
