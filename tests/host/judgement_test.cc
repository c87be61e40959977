// SPDX-License-Identifier: Apache-2.0
// The map from address to judgement that nftables gets, held against the lists it was made from; no
// kernel needed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "firewall/control.h"
#include "host/ruleset.h"
#include "host/worker_sockets.h"

namespace sallyport::host {
namespace {

using testing::HasSubstr;
using testing::Not;

// The worker is told these numbers by firewall/control.h.
static_assert(kForwardedMark == firewall::control::kForwardedMark);
static_assert(kTproxyMark == firewall::control::kTproxyMark);
static_assert(kNflogGroup == firewall::control::kNflogGroup);

NodeNetwork node() {
  NodeNetwork out;
  out.pool4 = *Cidr::parse("10.209.0.0/16");
  out.pool6 = *Cidr::parse("fd53:616c:6c79::/48");
  return out;
}
std::vector<Cidr> ranges(std::initializer_list<const char*> texts) {
  std::vector<Cidr> out;
  for (const auto* text : texts) out.push_back(*Cidr::parse(text));
  return out;
}
// What the map says; nothing: left to the worker.
std::optional<Judgement> look_up(const JudgementMap& map, const Address& address) {
  for (const auto& judged : address.is_v4() ? map.v4 : map.v6) {
    if (judged.range.first <= address && address <= judged.range.last) return judged.judgement;
  }
  return std::nullopt;
}
std::optional<Judgement> look_up(const JudgementMap& map, const char* text) {
  return look_up(map, *Address::parse(text));
}

// D-18, R-091
TEST(Judgement, boundary_wins_over_denied_wins_over_allowed_whatever_their_lengths) {
  AddressPolicy policy;
  policy.allowed = ranges({"10.0.0.0/8", "10.1.2.3/32", "198.19.0.0/16", "::ffff:198.18.0.0/112"});
  policy.denied = ranges({"10.1.0.0/16"});
  policy.refused = ranges({"10.1.2.0/24", "198.19.7.7"});
  const JudgementMap map = judge(node(), policy);
  EXPECT_EQ(look_up(map, "10.0.0.1"), Judgement::open);
  EXPECT_EQ(look_up(map, "10.1.2.3"), Judgement::boundary);
  EXPECT_EQ(look_up(map, "10.1.3.3"), Judgement::denied);
  EXPECT_EQ(look_up(map, "198.19.7.6"), Judgement::open);
  EXPECT_EQ(look_up(map, "198.19.7.7"), Judgement::boundary);
  EXPECT_EQ(look_up(map, "198.18.0.9"), Judgement::open);
  EXPECT_EQ(look_up(map, "198.20.0.0"), std::nullopt);
}

TEST(Judgement, denied_alone_opens_nothing) {
  AddressPolicy policy;
  policy.denied = ranges({"198.19.0.0/16"});
  for (const auto& judged : judge(node(), policy).v4) EXPECT_NE(judged.judgement, Judgement::open);
}

// I7: whatever a policy or an operator's file opens.
TEST(Judgement, some_addresses_are_never_open) {
  AddressPolicy policy;
  policy.forward_all = true;
  const JudgementMap map = judge(node(), policy);
  for (const auto* never :
       {"127.0.0.1", "0.0.0.0", "0.1.2.3", "224.0.0.1", "255.255.255.255", "240.0.0.1",
        "10.209.0.1", "10.209.255.255", "::", "::1", "fe80::1", "ff02::1", "fd53:616c:6c79:8::1"}) {
    EXPECT_EQ(look_up(map, never), Judgement::boundary) << never;
  }
  for (const auto* open : {"1.1.1.1", "223.255.255.255", "10.208.255.255", "10.210.0.0",
                           "2001:db8::1", "fd53:616c:6c7a::"}) {
    EXPECT_EQ(look_up(map, open), Judgement::open) << open;
  }
}

// the mapped block lies in the IPv6 map, though an Address of it is an IPv4 one.
TEST(Judgement, the_mapped_block_on_the_wire_is_refused) {
  AddressPolicy policy;
  policy.forward_all = true;
  const JudgementMap map = judge(node(), policy);
  const Address inside = Address::v4(0x08080808);
  const auto covers = [&](const Judged& judged) {
    return judged.range.first <= inside && inside <= judged.range.last;
  };
  const auto found = std::ranges::find_if(map.v6, covers);
  ASSERT_NE(found, map.v6.end());
  EXPECT_EQ(found->judgement, Judgement::boundary);
}

//
TEST(Judgement, a_denied_ipv4_range_is_denied_in_its_ipv6_forms) {
  AddressPolicy policy;
  policy.allowed = ranges({"::/0", "0.0.0.0/0"});
  policy.denied = ranges({"169.254.0.0/16"});
  const JudgementMap map = judge(node(), policy);
  for (const auto* form : {"64:ff9b::a9fe:a9fe", "2002:a9fe:a9fe::", "2002:a9fe:a9fe:1::1",
                           "::a9fe:a9fe", "2001:0:1:2:3:4:5601:5601"}) {
    EXPECT_EQ(look_up(map, form), Judgement::denied) << form;
  }
  EXPECT_EQ(look_up(map, "64:ff9b::808:808"), Judgement::open);
}

// Against a naive answer, address for address at every edge; and disjoint, sorted, never empty
// ranges (nftables insists).
TEST(Judgement, agrees_with_the_lists_at_every_edge) {
  std::mt19937 random(7);
  const auto any_range = [&] {
    const bool four = random() % 2 == 0;
    Address::Raw raw{0x20,
                     0x01,
                     0x0d,
                     0xb8,
                     0,
                     0,
                     0,
                     0,
                     0,
                     0,
                     0,
                     0,
                     0,
                     0,
                     static_cast<std::uint8_t>(random()),
                     static_cast<std::uint8_t>(random())};
    return four ? *Cidr::make(Address::v4((198U << 24) + (random() & 0xffff)), 16 + random() % 17)
                : *Cidr::make(Address(raw), 112 + random() % 17);
  };
  for (int round = 0; round < 200; ++round) {
    AddressPolicy policy;
    for (auto* list : {&policy.allowed, &policy.denied, &policy.refused}) {
      for (unsigned i = random() % 12; i > 0; --i) list->push_back(any_range());
    }
    const JudgementMap map = judge(node(), policy);
    for (const auto* family : {&map.v4, &map.v6}) {
      for (std::size_t i = 0; i < family->size(); ++i) {
        ASSERT_LE((*family)[i].range.first, (*family)[i].range.last);
        if (i > 0) ASSERT_LT((*family)[i - 1].range.last, (*family)[i].range.first);
      }
    }
    const auto in = [](const std::vector<Cidr>& list, const Address& address) {
      return std::ranges::any_of(list, [&](const Cidr& cidr) { return cidr.contains(address); });
    };
    const auto check = [&](const Address& address) {
      std::optional<Judgement> expected;
      if (in(policy.allowed, address)) expected = Judgement::open;
      if (in(policy.denied, address)) expected = Judgement::denied;
      if (in(policy.refused, address)) expected = Judgement::boundary;
      ASSERT_EQ(look_up(map, address), expected) << address.to_string();
      ASSERT_EQ(map.opens(address), expected == Judgement::open) << address.to_string();
    };
    for (const auto* list : {&policy.allowed, &policy.denied, &policy.refused}) {
      for (const Cidr& cidr : *list) {
        check(cidr.first());
        check(cidr.last());
        for (const int step : {-1, 1}) {
          Address::Raw raw = (step < 0 ? cidr.first() : cidr.last()).raw();
          const unsigned value =
              static_cast<unsigned>(raw[14] << 8 | raw[15]) + static_cast<unsigned>(step);
          if (value > 0xffff) continue;
          raw[14] = static_cast<std::uint8_t>(value >> 8);
          raw[15] = static_cast<std::uint8_t>(value);
          check(Address(raw));
        }
      }
    }
  }
}

// Deny never becomes allow by adding a denied range.
TEST(Judgement, adding_a_denied_range_opens_nothing_new) {
  std::mt19937 random(11);
  for (int round = 0; round < 100; ++round) {
    AddressPolicy policy;
    for (int i = 0; i < 5; ++i)
      policy.allowed.push_back(
          *Cidr::make(Address::v4((198U << 24) + (random() & 0xffff)), 20 + random() % 13));
    const JudgementMap before = judge(node(), policy);
    policy.denied.push_back(
        *Cidr::make(Address::v4((198U << 24) + (random() & 0xffff)), 18 + random() % 15));
    const JudgementMap after = judge(node(), policy);
    for (const auto& judged : after.v4) {
      if (judged.judgement != Judgement::open) continue;
      ASSERT_TRUE(before.opens(judged.range.first) && before.opens(judged.range.last));
    }
  }
}

TEST(Addresses, follow_from_the_slot_and_stay_in_the_pools) {
  const NodeNetwork pools = node();
  EXPECT_EQ(slot_count(pools), 8192U);
  const SandboxAddresses first = addresses_of(pools, 0);
  EXPECT_EQ(first.router4.to_string(), "10.209.0.1");
  EXPECT_EQ(first.guest4.to_string(), "10.209.0.2");
  EXPECT_EQ(first.host_up4.to_string(), "10.209.0.5");
  EXPECT_EQ(first.router_up4.to_string(), "10.209.0.6");
  EXPECT_EQ(first.guest6.to_string(), "fd53:616c:6c79::2");
  const SandboxAddresses last = addresses_of(pools, 8191);
  EXPECT_EQ(last.router_up4.to_string(), "10.209.255.254");
  EXPECT_EQ(last.router_up6.to_string(), "fd53:616c:6c79:3fff::2");
  EXPECT_TRUE(pools.pool4.contains(last.router_up4) && pools.pool6.contains(last.router_up6));
  EXPECT_EQ(to_string(last.guest_mac), "02:5a:01:00:1f:ff");
  EXPECT_EQ(link_local_of(last.guest_mac).to_string(), "fe80::5a:1ff:fe00:1fff");
}

TEST(Addresses, pools_that_are_too_small_have_no_slots) {
  NodeNetwork pools = node();
  pools.pool4 = *Cidr::parse("10.0.0.0/30");
  EXPECT_EQ(slot_count(pools), 0U);
  pools = node();
  pools.pool6 = *Cidr::parse("fd00::/64");
  EXPECT_EQ(slot_count(pools), 0U);
  std::swap(pools.pool4, pools.pool6);
  EXPECT_EQ(slot_count(pools), 0U);
}

TEST(Ruleset, every_name_is_filled_in_and_every_chain_that_decides_ends_in_a_refusal) {
  const std::string router = router_ruleset(node(), 3);
  EXPECT_THAT(router, Not(HasSubstr("$")));
  for (const auto* hook :
       {"prerouting priority mangle; policy drop", "forward priority filter; policy drop",
        "input priority filter; policy drop", "output priority filter; policy drop"}) {
    EXPECT_THAT(router, HasSubstr(std::string("type filter hook ") + hook));
  }
  EXPECT_THAT(router, HasSubstr("ip saddr != 10.209.0.26 goto spoofed"));
  EXPECT_THAT(router, HasSubstr("ip6 saddr != fd53:616c:6c79:6::2 goto spoofed"));
  EXPECT_THAT(router, HasSubstr("127.0.0.0-127.255.255.255 : 3"));

  NodeNetwork configured = node();
  configured.resolvers = {*Address::parse("127.0.0.53"), *Address::parse("2001:db8::53")};
  configured.refused = ranges({"192.168.0.0/16", "fe80::/10"});
  configured.worker_uid_first = 1900000000;
  configured.worker_uid_last = 1900008191;
  const std::string table = node_ruleset(configured);
  EXPECT_THAT(table, Not(HasSubstr("$")));
  EXPECT_THAT(table, HasSubstr("add element inet sallyport resolvers4 { 127.0.0.53 }"));
  EXPECT_THAT(table, HasSubstr("add element inet sallyport resolvers6 { 2001:db8::53 }"));
  EXPECT_THAT(table,
              HasSubstr("refused4 { 10.209.0.0-10.209.255.255, 192.168.0.0-192.168.255.255, }"));
  EXPECT_THAT(table, HasSubstr("meta skuid 1900000000-1900008191 goto from_worker"));
}

}  // namespace
}  // namespace sallyport::host
