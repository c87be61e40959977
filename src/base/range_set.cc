// SPDX-License-Identifier: Apache-2.0
#include "base/range_set.h"

#include <algorithm>

namespace sallyport {
namespace {

Address next(Address address) {
  Address::Raw raw = address.raw();
  for (std::size_t i = raw.size(); i-- > 0;) {
    if (++raw[i] != 0) break;
  }
  return Address(raw);
}

std::vector<AddressRange> merged(std::vector<AddressRange> ranges) {
  std::ranges::sort(ranges);
  std::vector<AddressRange> result;
  for (const AddressRange& range : ranges) {
    // next() of the very last address wraps to "::", which starts no later range: hence the first
    // test.
    if (!result.empty() &&
        (range.first <= result.back().last || range.first == next(result.back().last))) {
      result.back().last = std::max(result.back().last, range.last);
    } else {
      result.push_back(range);
    }
  }
  return result;
}

}  // namespace

RangeSet::RangeSet(std::span<const Cidr> cidrs) {
  for (const Cidr& cidr : cidrs) {
    (cidr.is_v4() ? four_ : six_).push_back({cidr.first(), cidr.last()});
  }
  four_ = merged(std::move(four_));
  six_ = merged(std::move(six_));
}

bool RangeSet::contains(const Address& address) const {
  const auto& ranges = address.is_v4() ? four_ : six_;
  const auto after = std::ranges::upper_bound(ranges, address, {}, &AddressRange::first);
  return after != ranges.begin() && address <= std::prev(after)->last;
}

}  // namespace sallyport
