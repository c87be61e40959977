// SPDX-License-Identifier: Apache-2.0
#include "base/address.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "base/range_set.h"

namespace sallyport {
namespace {

Address address(const char* text) { return Address::parse(text).value(); }
Cidr cidr(const char* text) { return Cidr::parse(text).value(); }

// the mapped form is the IPv4 address.
TEST(Address, mapped_form_is_the_ipv4_address) {
  EXPECT_EQ(address("::ffff:10.0.0.1"), address("10.0.0.1"));
  EXPECT_TRUE(address("::ffff:10.0.0.1").is_v4());
}

// 6to4, NAT64, Teredo and IPv4-compatible addresses carry an IPv4 address.
TEST(Address, embedded_ipv4_is_found) {
  EXPECT_EQ(address("64:ff9b::a9fe:a9fe").embedded_v4(), address("169.254.169.254"));
  EXPECT_EQ(address("2002:a9fe:a9fe::").embedded_v4(), address("169.254.169.254"));
  EXPECT_EQ(address("2001:0:1:2:3:4:5601:5601").embedded_v4(), address("169.254.169.254"));
  EXPECT_EQ(address("::10.0.0.1").embedded_v4(), address("10.0.0.1"));
  EXPECT_FALSE(address("2001:db8::1").embedded_v4());
  EXPECT_FALSE(address("::1").embedded_v4());
  EXPECT_FALSE(address("::").embedded_v4());
}

TEST(Address, bad_texts_are_refused) {
  for (const char* text :
       {"", "1.2.3", "1.2.3.4.5", "01.2.3.4x", "fe80::1%eth0", "[::1]", "g::1"}) {
    EXPECT_FALSE(Address::parse(text)) << text;
  }
}

TEST(Endpoint, text_round_trip) {
  for (const char* text : {"1.2.3.4:80", "[2001:db8::1]:443"}) {
    EXPECT_EQ(Endpoint::parse(text)->to_string(), text);
  }
  for (const char* text :
       {"1.2.3.4", "2001:db8::1:80", "[1.2.3.4]:80", "1.2.3.4:65536", "1.2.3.4:"}) {
    EXPECT_FALSE(Endpoint::parse(text)) << text;
  }
}

// R-12 of spec 2.2 and R-068: host bits are masked, a bare address is one address, bad prefixes
// refused.
TEST(Cidr, parse_masks_and_refuses) {
  EXPECT_EQ(cidr("10.0.0.1/8").to_string(), "10.0.0.0/8");
  EXPECT_EQ(cidr("10.0.0.1").to_string(), "10.0.0.1/32");
  EXPECT_EQ(cidr("2001:db8::1").to_string(), "2001:db8::1/128");
  for (const char* text : {"10.0.0.0/33", "::/129", "10.0.0.0/", "/8", "10.0.0.0/-1", "10.0.0.0/08",
                           "::ffff:0:0/95"}) {
    EXPECT_FALSE(Cidr::parse(text)) << text;
  }
}

// a v4 range written in mapped form is the v4 range; ::/0 is IPv6 only.
TEST(Cidr, families_do_not_mix) {
  EXPECT_EQ(cidr("::ffff:10.0.0.0/104"), cidr("10.0.0.0/8"));
  EXPECT_FALSE(cidr("::/0").contains(address("10.0.0.1")));
  EXPECT_FALSE(cidr("0.0.0.0/0").contains(address("2001:db8::1")));
  EXPECT_TRUE(cidr("0.0.0.0/0").contains(address("255.255.255.255")));
}

TEST(RangeSet, overlapping_and_adjacent_ranges_merge) {
  const std::vector<Cidr> cidrs = {cidr("10.0.1.0/24"), cidr("10.0.0.0/24"), cidr("10.0.0.7"),
                                   cidr("::/0"), cidr("255.255.255.255")};
  const RangeSet set(cidrs);
  EXPECT_EQ(set.v4().size(), 2U);
  EXPECT_TRUE(set.contains(address("10.0.1.255")));
  EXPECT_FALSE(set.contains(address("10.0.2.0")));
  EXPECT_TRUE(set.contains(address("255.255.255.255")));
  EXPECT_TRUE(set.contains(address("2001:db8::1")));
}

// Property: the set says the same as asking every prefix in turn.
TEST(RangeSet, equals_the_naive_search) {
  std::uint32_t state = 1;
  const auto random = [&] { return state = state * 1664525 + 1013904223; };
  for (int round = 0; round < 200; ++round) {
    std::vector<Cidr> cidrs;
    for (int i = 0; i < 8; ++i)
      cidrs.push_back(*Cidr::make(Address::v4(random() & 0xfff), 24 + random() % 9));
    const RangeSet set(cidrs);
    for (int i = 0; i < 200; ++i) {
      const Address probe = Address::v4(random() & 0x1fff);
      const bool naive =
          std::ranges::any_of(cidrs, [&](const Cidr& c) { return c.contains(probe); });
      ASSERT_EQ(set.contains(probe), naive) << probe.to_string();
    }
  }
}

}  // namespace
}  // namespace sallyport
