// SPDX-License-Identifier: Apache-2.0
#include "policy/domain_pattern.h"

#include <gtest/gtest.h>

namespace sallyport::policy {
namespace {

std::string normal(std::string_view text) {
  const auto pattern = parse_domain_pattern(text);
  return pattern ? *pattern : "refused: " + pattern.error().message;
}

bool admits(std::string_view pattern, std::string_view name) {
  return pattern_matches(pattern, name);
}

// FW-043, FW-044, FW-045, FW-048, FW-049: the table of spec 2.5. R-067.
TEST(DomainPattern, the_documented_table_holds) {
  EXPECT_TRUE(admits("example.com", "example.com"));
  EXPECT_FALSE(admits("example.com", "www.example.com"));
  EXPECT_TRUE(admits("*.example.com", "www.example.com"));
  EXPECT_TRUE(admits("*.example.com", "www.api.example.com"));
  EXPECT_FALSE(admits("*.example.com", "example.com"));
  EXPECT_TRUE(admits("www.*.com", "www.example.com"));
  EXPECT_FALSE(admits("www.*.com", "example.com"));
  EXPECT_FALSE(admits("www.*.com", "www.api.example.com"));
  for (const char* name : {"a", "example.com", "a.b.c.d.e"}) EXPECT_TRUE(admits("*", name)) << name;
}

// D-02, FW-040, FW-041: combinations of stars.
TEST(DomainPattern, a_leading_star_is_one_or_more_labels_and_an_inner_one_exactly_one) {
  EXPECT_TRUE(admits("*.*.example.com", "a.b.example.com"));
  EXPECT_TRUE(admits("*.*.example.com", "a.b.c.example.com"));
  EXPECT_FALSE(admits("*.*.example.com", "a.example.com"));
  EXPECT_TRUE(admits("www.*", "www.com"));
  EXPECT_FALSE(admits("www.*", "www.example.com"));
  EXPECT_TRUE(admits("*.foo.*", "a.b.foo.net"));
  EXPECT_FALSE(admits("*.foo.*", "foo.net"));
}

// FW-050: suffixes are compared by label, not by character.
TEST(DomainPattern, a_wildcard_does_not_admit_look_alikes) {
  EXPECT_FALSE(admits("*.example.com", "notexample.com"));
  EXPECT_FALSE(admits("*.example.com", "example.com.evil.net"));
  EXPECT_FALSE(admits("example.com", "xexample.com"));
}

// FW-051, D-03, R-005: case, trailing dot, U-labels.
TEST(DomainPattern, the_normal_form_is_lower_case_a_labels_without_a_trailing_dot) {
  EXPECT_EQ(normal("API.Example.COM"), "api.example.com");
  EXPECT_EQ(normal("example.com."), "example.com");
  EXPECT_EQ(normal("b\u00fccher.example"), "xn--bcher-kva.example");
  EXPECT_EQ(normal("*.B\u00dcCHER.example"), "*.xn--bcher-kva.example");
  EXPECT_EQ(normal("_dmarc.example.com"), "_dmarc.example.com");
}

// FW-042, R-11, R-068: what is refused, with the reason.
TEST(DomainPattern, bad_patterns_are_refused_with_a_reason) {
  const auto reason = [](std::string_view text) {
    const auto pattern = parse_domain_pattern(text);
    return pattern ? "accepted as " + *pattern : pattern.error().message;
  };
  EXPECT_EQ(reason("api*.example.com"), "a wildcard must be a whole label");
  EXPECT_EQ(reason("*api.example.com"), "a wildcard must be a whole label");
  EXPECT_EQ(reason("*example.com"), "a wildcard must be a whole label");
  EXPECT_EQ(reason("**.example.com"), "a wildcard must be a whole label");
  EXPECT_EQ(reason("https://example.com"), "must be a host name, without a scheme");
  EXPECT_EQ(reason("example.com/path"), "must be a host name, without a path");
  EXPECT_EQ(reason(" example.com"), "must not contain white space or control characters");
  EXPECT_EQ(reason("example.com:443"), "must be a host name, without a port");
  EXPECT_EQ(reason(""), "is empty");
  EXPECT_EQ(reason("."), "has an empty label");
  EXPECT_EQ(reason("a..b"), "has an empty label");
  EXPECT_EQ(reason(".example.com"), "has an empty label");
  EXPECT_EQ(reason("example.com.."), "has an empty label");
  EXPECT_EQ(reason("10.0.0.1"), "is an IP address; use subnets.allow for addresses");
  EXPECT_EQ(reason("2001:db8::1"), "is an IP address; use subnets.allow for addresses");
  EXPECT_EQ(reason("[2001:db8::1]"), "is an IP address; use subnets.allow for addresses");
  EXPECT_EQ(reason("127.1"),
            "is an IP address or ends in a number; use subnets.allow for addresses");
  EXPECT_EQ(reason(std::string(64, 'a') + ".com"), "has a label longer than 63 bytes");
  std::string long_name;
  while (long_name.size() < 300) long_name += "abcdefgh.";
  EXPECT_EQ(reason(long_name + "com"), "is longer than 253 bytes");
  EXPECT_EQ(reason("ex\u3002ample.com").substr(0, 16),
            "may contain only");  // a full stop that is not ASCII
}

}  // namespace
}  // namespace sallyport::policy
