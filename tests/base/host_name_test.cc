// SPDX-License-Identifier: Apache-2.0
#include "base/host_name.h"

#include <gtest/gtest.h>

namespace sallyport {
namespace {

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
