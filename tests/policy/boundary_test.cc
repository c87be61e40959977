// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <random>

#include "policy/decide.h"
#include "policy/policy_json.h"

namespace sallyport::policy {
namespace {

Address address(std::string_view text) { return Address::parse(text).value(); }
std::vector<Cidr> ranges(std::initializer_list<std::string_view> texts) {
  std::vector<Cidr> result;
  for (const auto text : texts) result.push_back(Cidr::parse(text).value());
  return result;
}

// FW-187, D-16: the registries' special-purpose blocks, one address each.
TEST(Boundary, admits_only_globally_routable_addresses_by_default) {
  const Boundary boundary;
  for (const char* text : {"0.0.0.0",
                           "10.0.0.1",
                           "100.64.0.1",
                           "127.0.0.1",
                           "169.254.169.254",
                           "172.16.0.1",
                           "172.31.255.255",
                           "192.0.0.8",
                           "192.0.0.170",
                           "192.0.2.1",
                           "192.88.99.1",
                           "192.168.1.1",
                           "198.18.0.1",
                           "198.19.255.255",
                           "198.51.100.1",
                           "203.0.113.1",
                           "224.0.0.251",
                           "240.0.0.1",
                           "255.255.255.255",
                           "::",
                           "::1",
                           "::ffff:10.0.0.1",
                           "64:ff9b::808:808",
                           "64:ff9b:1::1",
                           "100::1",
                           "2001::1",
                           "2001:2::1",
                           "2001:10::1",
                           "2001:20::1",
                           "2001:db8::1",
                           "2002:808:808::1",
                           "3fff::1",
                           "5f00::1",
                           "fc00::1",
                           "fd00:ec2::254",
                           "fe80::1",
                           "fec0::1",
                           "ff02::1",
                           "4000::1",
                           "1000::"}) {
    EXPECT_FALSE(boundary.admits(address(text))) << text;
  }
  for (const char* text : {"1.1.1.1",
                           "8.8.8.8",
                           "9.255.255.255",
                           "11.0.0.0",
                           "100.63.255.255",
                           "100.128.0.0",
                           "126.255.255.255",
                           "128.0.0.0",
                           "172.15.255.255",
                           "172.32.0.0",
                           "192.0.1.0",
                           "198.17.255.255",
                           "198.20.0.0",
                           "223.255.255.255",
                           "::ffff:8.8.8.8",
                           "2001:200::1",
                           "2001:4860:4860::8888",
                           "2620:fe::fe",
                           "2a00:1450::1",
                           "2003::1"}) {
    EXPECT_TRUE(boundary.admits(address(text))) << text;
  }
}

TEST(Boundary, some_addresses_can_never_be_opened) {
  const Boundary open({}, ranges({"0.0.0.0/0", "::/0"}), {});
  for (const char* text :
       {"127.0.0.1", "0.0.0.0", "224.0.0.1", "255.255.255.255", "::1", "::", "::a00:1",
        "2001:0:1::1", "ff02::1", "::ffff:127.0.0.1", "64:ff9b::7f00:1", "2002:7f00:1::"}) {
    EXPECT_FALSE(open.admits(address(text))) << text;
  }
  for (const char* text :
       {"10.0.0.1", "169.254.169.254", "fd00::1", "fe80::1", "64:ff9b::a00:1", "2002:a00:1::"}) {
    EXPECT_TRUE(open.admits(address(text))) << text;
  }
}

// I7: closed wins over opened and attached, and over their IPv6 carriers (R-088).
TEST(Boundary, closed_always_wins) {
  const Boundary boundary(ranges({"10.1.0.0/16", "2001:db8:1::/48"}),
                          ranges({"10.0.0.0/8", "2001:db8::/32", "64:ff9b::/96"}),
                          ranges({"10.1.2.0/24"}));
  EXPECT_TRUE(boundary.admits(address("10.2.0.1")));
  EXPECT_FALSE(boundary.admits(address("10.1.2.3")));
  EXPECT_FALSE(boundary.admits(address("64:ff9b::a01:203")));
  EXPECT_TRUE(boundary.admits(address("64:ff9b::a02:1")));
  EXPECT_FALSE(boundary.admits(address("2001:db8:1::1")));
  EXPECT_TRUE(boundary.admits(address("2001:db8:2::1")));
}

Address next(const Address& from, int step) {
  Address::Raw raw = from.raw();
  for (std::size_t i = raw.size(); i-- > 0;) {
    raw[i] = static_cast<std::uint8_t>(raw[i] + step);
    if (step > 0 ? raw[i] != 0 : raw[i] != 0xff) break;
  }
  return Address(raw);
}

bool listed(const std::vector<Cidr>& list, const Address& which) {
  return std::ranges::any_of(list, [&](const Cidr& range) { return range.contains(which); });
}

// R-088, D-16: nftables gets exactly what admits() says. Probed at every edge of every range, at
// carriers of those edges and at random.
TEST(Boundary, refused_equals_not_admitted_address_for_address) {
  std::mt19937 engine(11);
  const auto below = [&](std::size_t bound) {
    return std::uniform_int_distribution<std::size_t>(0, bound - 1)(engine);
  };
  const std::vector<std::string_view> pool = {
      "0.0.0.0/0",       "10.0.0.0/8",
      "10.1.0.0/16",     "10.1.2.3",
      "127.0.0.0/8",     "169.254.0.0/16",
      "93.184.0.0/15",   "192.168.1.0/24",
      "255.255.255.255", "0.0.0.0/32",
      "198.18.0.0/15",   "::/0",
      "fd00::/8",        "fd00:1::/32",
      "64:ff9b::/96",    "64:ff9b::a00:0/104",
      "2002::/16",       "2002:a00::/24",
      "2001:db8::/32",   "2001::/32",
      "2a00::/16",       "fe80::/10",
      "::/96",           "::fffe:0:0/96",
      "::1:0:0:0/80",    "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"};
  for (int round = 0; round < 60; ++round) {
    std::array<std::vector<Cidr>, 3> lists;
    for (auto& list : lists) {
      for (std::size_t i = below(5); i > 0; --i)
        list.push_back(Cidr::parse(pool[below(pool.size())]).value());
    }
    const Boundary boundary(lists[0], lists[1], lists[2]);
    const auto refused = boundary.refused();
    std::vector<Address> probes;
    for (const auto& list : {lists[0], lists[1], lists[2], refused}) {
      for (const Cidr& range : list) {
        for (const Address& edge : {range.first(), range.last()}) {
          for (const Address& near : {edge, next(edge, 1), next(edge, -1)}) probes.push_back(near);
        }
      }
    }
    for (int i = 0; i < 200; ++i)
      probes.push_back(Address::v4(static_cast<std::uint32_t>(engine())));
    const std::size_t count = probes.size();
    for (std::size_t i = 0; i < count; ++i) {
      if (!probes[i].is_v4()) continue;
      Address::Raw nat64 = {0x00, 0x64, 0xff, 0x9b};
      Address::Raw six_to_four = {0x20, 0x02};
      Address::Raw compatible = {};
      std::copy_n(probes[i].raw().begin() + 12, 4, nat64.begin() + 12);
      std::copy_n(probes[i].raw().begin() + 12, 4, six_to_four.begin() + 2);
      std::copy_n(probes[i].raw().begin() + 12, 4, compatible.begin() + 12);
      six_to_four[15] = static_cast<std::uint8_t>(engine());
      for (const auto& raw : {nat64, six_to_four, compatible}) probes.emplace_back(raw);
    }
    for (const Address& probe : probes) {
      ASSERT_EQ(listed(refused, probe), !boundary.admits(probe))
          << "round " << round << ": " << probe.to_string();
    }
  }
}

TEST(Boundary, refused_prefixes_are_disjoint) {
  const auto refused =
      Boundary(ranges({"8.8.8.8"}), ranges({"10.0.0.0/9", "64:ff9b::/96"}), {}).refused();
  for (std::size_t i = 0; i < refused.size(); ++i) {
    for (std::size_t k = i + 1; k < refused.size(); ++k) {
      EXPECT_FALSE(refused[i].contains(refused[k].first()) ||
                   refused[k].contains(refused[i].first()))
          << refused[i].to_string() << " " << refused[k].to_string();
    }
  }
}

// What nftables enforces by the sets is what decide_address says; R-091.
TEST(Boundary, the_sets_of_a_policy_agree_with_decide_address) {
  const auto policy =
      parse_policy(
          R"({"subnets":{"allow":["0.0.0.0/0","::/0"],"deny":["93.184.0.0/16","2a00:1::/32"]}})")
          .value();
  const Boundary boundary({}, ranges({"64:ff9b::/96", "2002::/16"}), {});
  for (const char* text :
       {"93.184.1.1", "93.185.1.1", "2a00:1::1", "2a00:2::1", "64:ff9b::5db8:101",
        "64:ff9b::5db9:101", "2002:5db8:101::", "2002:5db9:101::", "::ffff:93.184.1.1"}) {
    const Address probe = address(text);
    const bool by_sets = boundary.admits(probe) && !policy->denied_set.contains(probe) &&
                         policy->allowed_set.contains(probe);
    EXPECT_EQ(decide_address(*policy, boundary, probe).access == Access::allow, by_sets) << text;
  }
}

}  // namespace
}  // namespace sallyport::policy
