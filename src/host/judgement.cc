// SPDX-License-Identifier: Apache-2.0
// Interval arithmetic of the judgement map: refused over denied over allowed, computed once per
// update instead of once per packet.
#include <algorithm>
#include <array>

#include "base/check.h"
#include "host/ruleset.h"

namespace sallyport::host {
namespace {

using Ranges = std::vector<AddressRange>;

Address step(const Address& address, int direction) {
  Address::Raw raw = address.raw();
  for (std::size_t i = raw.size(); i-- > 0;) {
    const std::uint8_t before = raw[i];
    raw[i] = static_cast<std::uint8_t>(before + direction);
    if (before != (direction > 0 ? 0xff : 0x00)) break;  // no carry
  }
  return Address(raw);
}

// Both sorted and disjoint.
Ranges subtract(const Ranges& from, const Ranges& what) {
  Ranges left;
  auto cut = what.begin();
  for (AddressRange range : from) {
    while (cut != what.end() && cut->last < range.first) ++cut;
    bool gone = false;
    for (auto hole = cut; hole != what.end() && hole->first <= range.last; ++hole) {
      if (range.first < hole->first) left.push_back({range.first, step(hole->first, -1)});
      if (hole->last >= range.last) {
        gone = true;
        break;
      }
      range.first = step(hole->last, +1);
    }
    if (!gone) left.push_back(range);
  }
  return left;
}

Cidr cidr(std::string_view text) {
  const auto parsed = Cidr::parse(text);
  CHECK(parsed);  // only literals of this file come here
  return *parsed;
}

// A denied IPv4 range also denies the IPv6 forms that carry it: IPv4-compatible, well-known
// NAT64, 6to4. (The mapped form is refused as a whole below; Teredo hides the address inverted at
// the end, which no prefix can say, so Teredo is denied as a whole once anything of IPv4 is
// denied.)
void add_carriers(const Cidr& four, std::vector<Cidr>& out) {
  if (!four.is_v4()) return;
  const std::uint32_t bits = four.first().v4_host_order();
  const auto carried = [&](std::string_view base, std::size_t offset, unsigned prefix) {
    Address::Raw raw = Address::parse(base)->raw();
    for (std::size_t i = 0; i < 4; ++i)
      raw[offset + i] = static_cast<std::uint8_t>(bits >> (24 - 8 * i));
    if (const auto made = Cidr::make(Address(raw), prefix)) out.push_back(*made);
  };
  carried("::", 12, 96 + four.prefix());
  carried("64:ff9b::", 12, 96 + four.prefix());
  carried("2002::", 2, 16 + four.prefix());
  out.push_back(cidr("2001::/32"));
}

// No node's configuration can open these: they have no meaning beyond a link, or they are our own
// plumbing.
std::vector<Cidr> always_refused(const NodeNetwork& node) {
  std::vector<Cidr> out{node.pool4, node.pool6};
  for (const auto* text : {"0.0.0.0/8", "127.0.0.0/8", "224.0.0.0/4", "240.0.0.0/4", "::/127",
                           "fe80::/10", "ff00::/8"}) {
    out.push_back(cidr(text));
  }
  return out;
}

// ::ffff:0:0/96 on the wire. Cidr and Address make IPv4 of it on purpose, so it is spelled as a
// range here.
AddressRange mapped_block() { return {Address::v4(0), Address::v4(0xffffffff)}; }

std::vector<Judged> join(const Ranges& refused, const Ranges& denied, const Ranges& open) {
  std::vector<Judged> out;
  out.reserve(refused.size() + denied.size() + open.size());
  for (const auto& range : refused) out.push_back({range, Judgement::boundary});
  for (const auto& range : denied) out.push_back({range, Judgement::denied});
  for (const auto& range : open) out.push_back({range, Judgement::open});
  std::ranges::sort(out);
  return out;
}

}  // namespace

bool JudgementMap::opens(const Address& address) const {
  const auto& list = address.is_v4() ? v4 : v6;
  const auto after = std::ranges::upper_bound(
      list, address, {}, [](const Judged& judged) { return judged.range.first; });
  if (after == list.begin()) return false;
  const Judged& found = *std::prev(after);
  return found.judgement == Judgement::open && address <= found.range.last;
}

bool JudgementMap::opens_anything() const {
  const auto open = [](const Judged& judged) { return judged.judgement == Judgement::open; };
  return std::ranges::any_of(v4, open) || std::ranges::any_of(v6, open);
}

JudgementMap judge(const NodeNetwork& node, const AddressPolicy& policy) {
  std::vector<Cidr> refused = always_refused(node);
  refused.insert(refused.end(), policy.refused.begin(), policy.refused.end());
  std::vector<Cidr> denied = policy.denied;
  for (const Cidr& range : policy.denied) add_carriers(range, denied);
  std::vector<Cidr> allowed = policy.allowed;
  if (policy.forward_all) allowed = {cidr("0.0.0.0/0"), cidr("::/0")};

  const RangeSet refused_set(refused);
  const RangeSet denied_set(denied);
  const RangeSet allowed_set(allowed);
  const auto family = [](const Ranges& no, const Ranges& deny, const Ranges& yes) {
    const Ranges shut = subtract(deny, no);
    return join(no, shut, subtract(subtract(yes, no), shut));
  };
  JudgementMap map;
  map.v4 = family(refused_set.v4(), denied_set.v4(), allowed_set.v4());
  Ranges refused6 = refused_set.v6();
  refused6.push_back(mapped_block());
  std::ranges::sort(refused6);
  // The mapped block may lie inside a longer refused range (::/8 say): merge, so that the list
  // stays disjoint.
  Ranges merged6;
  for (const auto& range : refused6) {
    if (!merged6.empty() && range.first <= merged6.back().last) {
      merged6.back().last = std::max(merged6.back().last, range.last);
    } else {
      merged6.push_back(range);
    }
  }
  map.v6 = family(merged6, denied_set.v6(), allowed_set.v6());
  return map;
}

}  // namespace sallyport::host
