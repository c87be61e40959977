// SPDX-License-Identifier: Apache-2.0
// A set of address ranges with O(log n) lookup. Overlaps are merged; families never mix.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "base/address.h"

namespace sallyport {

struct AddressRange {
  Address first;
  Address last;  // inclusive
  auto operator<=>(const AddressRange&) const = default;
};

class RangeSet {
 public:
  RangeSet() = default;
  explicit RangeSet(std::span<const Cidr> cidrs);

  [[nodiscard]] bool contains(const Address& address) const;
  [[nodiscard]] bool empty() const { return four_.empty() && six_.empty(); }
  // Sorted, disjoint, adjacent ranges merged.
  [[nodiscard]] const std::vector<AddressRange>& v4() const { return four_; }
  [[nodiscard]] const std::vector<AddressRange>& v6() const { return six_; }

 private:
  std::vector<AddressRange> four_;
  std::vector<AddressRange> six_;
};

}  // namespace sallyport
