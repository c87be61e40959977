// SPDX-License-Identifier: Apache-2.0
#include "policy/range_index.h"

#include <algorithm>

namespace sallyport::policy {

RangeIndex::RangeIndex(std::span<const Cidr> cidrs) {
  for (std::size_t i = 0; i < cidrs.size(); ++i) {
    auto& nodes = cidrs[i].is_v4() ? four_ : six_;
    nodes.push_back({cidrs[i].first(), cidrs[i].last(), static_cast<std::uint32_t>(i)});
  }
  for (auto* nodes : {&four_, &six_}) {
    // At one start the wider range comes first, and of equal ranges the one written last: the walk
    // below then ends at the one written first.
    std::ranges::sort(*nodes, [](const Node& a, const Node& b) {
      if (a.first != b.first) return a.first < b.first;
      if (a.last != b.last) return a.last > b.last;
      return a.position > b.position;
    });
    std::vector<std::int32_t> open;
    for (std::size_t i = 0; i < nodes->size(); ++i) {
      Node& node = (*nodes)[i];
      while (!open.empty() && (*nodes)[static_cast<std::size_t>(open.back())].last < node.first)
        open.pop_back();
      node.around = open.empty() ? -1 : open.back();
      open.push_back(static_cast<std::int32_t>(i));
    }
  }
}

std::optional<std::size_t> RangeIndex::find(const Address& address) const {
  return find_in(address.is_v4() ? four_ : six_, address);
}

std::optional<std::size_t> RangeIndex::find_in(const std::vector<Node>& nodes,
                                               const Address& address) {
  const auto after = std::ranges::upper_bound(nodes, address, {}, &Node::first);
  auto at = static_cast<std::int32_t>(after - nodes.begin()) - 1;
  while (at >= 0) {
    const Node& node = nodes[static_cast<std::size_t>(at)];
    if (address <= node.last) return node.position;
    at = node.around;
  }
  return std::nullopt;
}

}  // namespace sallyport::policy
