// SPDX-License-Identifier: Apache-2.0
// Finds the winning domain pattern for a name (D-01): an exact name, else the pattern with most
// literal labels, at equal count a leading wildcard before an inner one, then the longer literal
// suffix, then more labels; `*` last. The order in which the user wrote them plays no part.
//
// How. Patterns of one *shape* (label count and where the stars are) share a hash table key space:
// the key is a sum of one hash per literal label and position. A sum can be taken over any subset
// of positions, so a name's labels are hashed once and each shape costs one addition and one probe.
// The winner between two patterns that match the same name depends on their shapes alone, so shapes
// are tried best first and the first hit is the answer. The work is bounded by labels in the name
// plus kMaxInnerShapes, never by the number of patterns. A reversed-label trie is measured beside
// it (bench/policy.cc): about even up to 1,000 patterns, slower at 100,000, and its walk doubles at
// every star.
//
// Hashes are keyed with a random seed per process: a tenant cannot write patterns that collide in
// the daemon.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace sallyport::policy {

class DomainIndex {
 public:
  // Different arrangements of inner wildcards in one policy; leading wildcards and exact names do
  // not count.
  static constexpr std::size_t kMaxInnerShapes = 64;

  DomainIndex() = default;
  // Patterns in normal form (domain_pattern.h), each once. The only failure is too many inner
  // shapes.
  [[nodiscard]] static Result<DomainIndex> build(std::span<const std::string_view> patterns);

  // Position of the winning pattern. `name` must be a normal host name.
  [[nodiscard]] std::optional<std::size_t> find(std::string_view name) const;
  // Position of the lone `*`, which also admits connections without a readable name (FW-084).
  [[nodiscard]] std::optional<std::size_t> catch_all() const { return catch_all_; }
  [[nodiscard]] bool empty() const { return slots_.empty(); }

 private:
  struct Shape {
    bool leading = false;
    std::uint8_t labels = 0;
    std::vector<std::uint8_t>
        stars;  // positions counted from the right, ascending, the leading one included
  };
  struct Slot {
    std::uint64_t hash = 0;  // 0: free
    std::uint32_t offset = 0;
    std::uint32_t position = 0;
    std::uint32_t length = 0;
  };
  [[nodiscard]] const Slot* probe(std::uint64_t hash, std::string_view name) const;

  std::vector<Shape> shapes_;  // best first; exact names are not among them
  std::vector<Slot> slots_;    // open addressing, a power of two, at most half full
  std::string text_;           // all patterns, one after the other
  std::optional<std::size_t> catch_all_;
  bool has_exact_ = false;
};

}  // namespace sallyport::policy
