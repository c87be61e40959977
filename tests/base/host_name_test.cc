// SPDX-License-Identifier: Apache-2.0
#include "base/host_name.h"

#include <gtest/gtest.h>

namespace sallyport {
namespace {

using namespace std::string_literals;

// D-03
TEST(HostName, is_lower_case_without_trailing_dot) {
  EXPECT_EQ(normal_host_name("API.Example.COM."), "api.example.com");
  EXPECT_EQ(normal_host_name("localhost"), "localhost");
  EXPECT_EQ(normal_host_name("_dmarc.xn--bcher-kva.example"), "_dmarc.xn--bcher-kva.example");
  EXPECT_EQ(normal_host_name("4.3.2.1.in-addr.arpa"), "4.3.2.1.in-addr.arpa");
}

// D-03
TEST(HostName, refuses_empty_and_overlong_parts) {
  for (const auto& name :
       {""s, "."s, ".."s, ".a"s, "a..b"s, "a.."s, std::string(64, 'a') + ".example"}) {
    EXPECT_FALSE(normal_host_name(name)) << name;
  }
  EXPECT_TRUE(normal_host_name(std::string(63, 'a') + ".example"));
  std::string longest;
  for (int i = 0; i < 126; ++i) longest += "a.";
  longest += "a";
  ASSERT_EQ(longest.size(), kMaxHostName);
  EXPECT_TRUE(normal_host_name(longest));
  EXPECT_TRUE(normal_host_name(longest + "."));
  EXPECT_FALSE(normal_host_name("a" + longest));
}

// D-03
TEST(HostName, refuses_every_byte_that_is_no_letter_digit_hyphen_or_underscore) {
  for (int byte = 0; byte < 256; ++byte) {
    const char c = static_cast<char>(byte);
    const bool good = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                      c == '-' || c == '_' || c == '.';
    EXPECT_EQ(normal_host_name("a"s + c + "b.example").has_value(), good) << byte;
  }
}

// D-03: what a resolver library would take for an address is no name.
TEST(HostName, refuses_what_could_be_read_as_an_address) {
  for (const auto* name : {"198.18.0.1", "127.1", "2130706433", "0x7f000001", "0x7f.0.0.0x1",
                           "a.0x", "1.2.3.4.", "::1"}) {
    EXPECT_FALSE(normal_host_name(name)) << name;
  }
  EXPECT_TRUE(normal_host_name("1.2.3.4.example"));
  EXPECT_TRUE(normal_host_name("1234567890ab"));
}

// D-03, R-006: what is a name in an SNI or a DNS question, and what is none.
TEST(HostName, only_a_well_formed_name_is_a_name) {
  EXPECT_EQ(normal_host_name("Example.COM."), "example.com");
  EXPECT_EQ(normal_host_name("_sip._tcp.example.com"), "_sip._tcp.example.com");
  EXPECT_EQ(normal_host_name(std::string(63, 'a') + ".b"), std::string(63, 'a') + ".b");
  using namespace std::string_literals;
  for (const std::string& bad :
       {""s, "."s, "a..b"s, ".a"s, "a.."s, "a b"s, "a\0b"s, "\xc3\xa9.com"s, "10.0.0.1"s, "::1"s,
        "[::1]"s, "1"s, "127.1"s, "0x7f.0x1"s, "a.0X"s, "*.example.com"s, "a/b"s,
        std::string(64, 'a') + ".b", "b." + std::string(64, 'a')}) {
    EXPECT_FALSE(normal_host_name(bad)) << bad;
  }
  std::string longest;
  while (longest.size() < 250) longest += "a.";
  longest += "abc";  // 253
  EXPECT_TRUE(normal_host_name(longest));
  EXPECT_TRUE(normal_host_name(longest + "."));
  EXPECT_FALSE(normal_host_name(longest + "d"));
}

}  // namespace
}  // namespace sallyport
