// SPDX-License-Identifier: Apache-2.0
// Which of the user's ranges contains an address: the most specific one, for the log and for
// `policy explain`. Whether any does is RangeSet's question. Prefixes are nested or disjoint, never
// half overlapping, so the answer is the last one that starts at or before the address, or one of
// those around it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/address.h"

namespace sallyport::policy {

class RangeIndex {
 public:
  RangeIndex() = default;
  explicit RangeIndex(std::span<const Cidr> cidrs);

  // Position in the list it was made from.
  [[nodiscard]] std::optional<std::size_t> find(const Address& address) const;

 private:
  struct Node {
    Address first;
    Address last;
    std::uint32_t position = 0;
    std::int32_t around = -1;  // the smallest range that encloses this one
  };
  [[nodiscard]] static std::optional<std::size_t> find_in(const std::vector<Node>& nodes,
                                                          const Address& address);

  std::vector<Node> four_;
  std::vector<Node> six_;
};

}  // namespace sallyport::policy
