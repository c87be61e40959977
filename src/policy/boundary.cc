// SPDX-License-Identifier: Apache-2.0
// Boundary of decide.h: which addresses a sandbox may reach at all, from the IANA special-purpose
// registries (IPv4: RFC 6890 and later, IPv6: likewise, as of 2026) plus what the operator closes,
// opens and attaches. admits() is the definition, refused() the same set as prefixes for nftables;
// a test compares them.
#include <algorithm>
#include <array>

#include "base/check.h"
#include "policy/decide.h"

namespace sallyport::policy {
namespace {

using Number = unsigned __int128;

struct Span {
  Number first;
  Number last;
};

constexpr Number kTop = ~Number{0};

Number to_number(const Address& address) {
  Number value = 0;
  for (const std::uint8_t byte : address.raw()) value = (value << 8) | byte;
  return value;
}

Address to_address(Number value) {
  Address::Raw raw{};
  for (std::size_t i = raw.size(); i-- > 0; value >>= 8) raw[i] = static_cast<std::uint8_t>(value);
  return Address(raw);
}

Cidr cidr(std::string_view text) {
  const auto parsed = Cidr::parse(text);
  CHECK(parsed);  // the tables below are ours
  return *parsed;
}

// Not globally reachable, per the registries; where a registry carves a reachable anycast address
// out of a block (192.0.0.9, 2001:1::1: they talk to the *local* NAT) the block stays whole.
constexpr std::array kSpecial = {
    "0.0.0.0/8",                          // this network
    "10.0.0.0/8",                         // private use
    "100.64.0.0/10",                      // shared address space
    "127.0.0.0/8",                        // loopback
    "169.254.0.0/16",                     // link local, cloud metadata
    "172.16.0.0/12",                      // private use
    "192.0.0.0/24",                       // IETF protocol assignments
    "192.0.2.0/24",                       // documentation
    "192.88.99.0/24",                     // 6to4 relay anycast, deprecated
    "192.168.0.0/16",                     // private use
    "198.18.0.0/15",                      // benchmarking
    "198.51.100.0/24", "203.0.113.0/24",  // documentation
    "224.0.0.0/4",                        // multicast
    "240.0.0.0/4",                        // reserved, limited broadcast
    // IPv6: everything outside 2000::/3, which is the only global unicast block handed out so far
    // ...
    "::/3", "4000::/2", "8000::/1",
    // ... and these inside it.
    "2001::/23",      // IETF protocol assignments, Teredo among them
    "2001:db8::/32",  // documentation
    "2002::/16",      // 6to4: carries an IPv4 address
    "3fff::/20",      // documentation
};
constexpr std::array kNever = {
    "0.0.0.0/8", "127.0.0.0/8", "224.0.0.0/4", "255.255.255.255/32",
    "::/96",      // unspecified, loopback, IPv4-compatible
    "2001::/32",  // Teredo hides its IPv4 address behind other bits
    "ff00::/8",
};

const RangeSet& special() {
  static const RangeSet set = [] {
    std::vector<Cidr> cidrs;
    cidrs.reserve(kSpecial.size());
    for (const char* text : kSpecial) cidrs.push_back(cidr(text));
    return RangeSet(cidrs);
  }();
  return set;
}

std::vector<Cidr> with_never(std::vector<Cidr> closed) {
  for (const char* text : kNever) closed.push_back(cidr(text));
  return closed;
}

std::vector<Cidr> joined(std::vector<Cidr> a, const std::vector<Cidr>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

std::vector<Span> spans(const std::vector<AddressRange>& ranges) {
  std::vector<Span> result;
  result.reserve(ranges.size());
  for (const AddressRange& range : ranges)
    result.push_back({to_number(range.first), to_number(range.last)});
  return result;
}

// Both sorted and disjoint, as RangeSet keeps them.
std::vector<Span> subtract(const std::vector<Span>& from, const std::vector<Span>& what) {
  std::vector<Span> result;
  auto cut = what.begin();
  for (Span rest : from) {
    while (cut != what.end() && cut->last < rest.first) ++cut;
    bool left = true;
    for (auto next = cut; next != what.end() && next->first <= rest.last; ++next) {
      if (next->first > rest.first) result.push_back({rest.first, next->first - 1});
      left = next->last < rest.last;
      if (!left) break;
      rest.first = next->last + 1;
    }
    if (left) result.push_back(rest);
  }
  return result;
}

std::vector<Span> merged(std::vector<Span> all) {
  std::ranges::sort(all, {}, &Span::first);
  std::vector<Span> result;
  for (const Span& span : all) {
    if (!result.empty() && (result.back().last == kTop || span.first <= result.back().last + 1)) {
      result.back().last = std::max(result.back().last, span.last);
    } else {
      result.push_back(span);
    }
  }
  return result;
}

// The fewest prefixes that cover exactly this span.
void append_prefixes(Span span, bool v4, std::vector<Cidr>& out) {
  for (;;) {
    unsigned free_bits = 0;
    while (free_bits < (v4 ? 32U : 128U)) {
      const Number size = free_bits + 1 == 128 ? 0 : Number{1} << (free_bits + 1);
      const Number mask = size - 1;  // 2^128 wraps to "all ones"
      if ((span.first & mask) != 0 || span.last - span.first < mask) break;
      ++free_bits;
    }
    const Number last = span.first + (free_bits == 128 ? kTop : (Number{1} << free_bits) - 1);
    const Address first = to_address(span.first);
    // Part of ::ffff:0:0/96: those addresses are IPv4 and have been judged as such.
    if (v4 || !first.is_v4()) out.push_back(*Cidr::make(first, (v4 ? 32U : 128U) - free_bits));
    if (last >= span.last) return;
    span.first = last + 1;
  }
}

// The IPv6 addresses of one scheme that carry these IPv4 ones: `prefix`, the IPv4 address, then
// `below` free bits.
void append_carriers(const std::vector<Span>& four, Number prefix, unsigned below,
                     std::vector<Span>& out) {
  for (const Span& span : four) {
    const Number first = span.first & 0xffffffffU;
    const Number last = span.last & 0xffffffffU;
    out.push_back(
        {prefix | (first << below), prefix | (last << below) | ((Number{1} << below) - 1)});
  }
}

}  // namespace

Boundary::Boundary(std::vector<Cidr> closed, std::vector<Cidr> opened,
                   const std::vector<Cidr>& attached)
    : closed_(with_never(std::move(closed))), opened_(joined(std::move(opened), attached)) {}

bool Boundary::admits(const Address& address) const {
  if (closed_.contains(address)) return false;
  if (special().contains(address) && !opened_.contains(address)) return false;
  const auto carried = address.embedded_v4();
  return !carried || admits(*carried);  // an IPv4 address carries nothing, so this ends
}

std::vector<Cidr> Boundary::refused() const {
  std::vector<Span> four = subtract(spans(special().v4()), spans(opened_.v4()));
  std::ranges::copy(spans(closed_.v4()), std::back_inserter(four));
  four = merged(std::move(four));
  std::vector<Span> six = subtract(spans(special().v6()), spans(opened_.v6()));
  std::ranges::copy(spans(closed_.v6()), std::back_inserter(six));
  append_carriers(four, Number{0x0064ff9b} << 96, 0, six);
  append_carriers(four, Number{0x2002} << 112, 80, six);
  six = merged(std::move(six));

  std::vector<Cidr> result;
  for (const Span& span : four) append_prefixes(span, true, result);
  for (const Span& span : six) append_prefixes(span, false, result);
  return result;
}

}  // namespace sallyport::policy
