// SPDX-License-Identifier: Apache-2.0
#include "policy/domain_index.h"

#include <fmt/format.h>
#include <sys/random.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <map>
#include <tuple>

#include "base/check.h"
#include "base/host_name.h"
#include "policy/domain_pattern.h"

namespace sallyport::policy {
namespace {

constexpr std::size_t kMaxLabels = (kMaxHostName + 1) / 2;

struct Seed {
  std::uint64_t text;
  std::uint64_t position;
};

const Seed& seed() {
  static const Seed value = [] {
    Seed fresh{};
    CHECK(getrandom(&fresh, sizeof fresh, 0) ==
          static_cast<ssize_t>(sizeof fresh));  // small reads are whole
    return fresh;
  }();
  return value;
}

// The folded 128-bit product of wyhash: two multiplications per eight bytes and every input bit
// reaches every output bit.
std::uint64_t mix(std::uint64_t a, std::uint64_t b) {
  const unsigned __int128 product = static_cast<unsigned __int128>(a) * b;
  return static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64);
}

std::uint64_t hash_label(std::string_view label, std::uint64_t key) {
  std::uint64_t hash = key ^ (label.size() * 0x9e3779b97f4a7c15ULL);
  while (!label.empty()) {
    std::uint64_t word = 0;
    const std::size_t count = std::min(label.size(), sizeof word);
    std::memcpy(&word, label.data(), count);
    hash = mix(hash ^ word, 0xa0761d6478bd642fULL ^ key);
    label.remove_prefix(count);
  }
  return hash;
}

// Per label counted from the right, the sum of the terms of all labels to its right.
struct LabelSums {
  std::array<std::uint64_t, kMaxLabels + 1> before;  // before[k]: positions 0..k-1
  std::size_t count = 0;

  explicit LabelSums(std::string_view name) {
    const Seed& keys = seed();
    before[0] = 0;
    while (count < kMaxLabels) {
      const auto dot = name.rfind('.');
      const std::string_view label = dot == std::string_view::npos ? name : name.substr(dot + 1);
      const std::uint64_t term =
          mix(hash_label(label, keys.text), keys.position + (count + 1) * 0xe7037ed1a0b428dbULL);
      before[count + 1] = before[count] + term;
      ++count;
      if (dot == std::string_view::npos) break;
      name = name.substr(0, dot);
    }
  }
  [[nodiscard]] std::uint64_t term(std::size_t position) const {
    return before[position + 1] - before[position];
  }
};

// One key per shape, so that "a.b" and "*.a.b" do not meet; never 0, which marks a free slot.
std::uint64_t key_of(std::uint64_t sum, std::size_t shape) {
  const std::uint64_t key = mix(sum ^ seed().text, 0x8ebc6af09c88c6e3ULL + 2 * shape);
  return key == 0 ? 1 : key;
}
constexpr std::size_t kExact = static_cast<std::size_t>(-1);

struct ShapeView {
  bool leading;
  std::size_t labels;
  const std::vector<std::uint8_t>& stars;
};
std::uint64_t masked_sum(const LabelSums& sums, const ShapeView& shape) {
  std::uint64_t sum = sums.before[shape.leading ? shape.labels - 1 : shape.labels];
  for (const std::uint8_t star : shape.stars) {
    if (!shape.leading || star != shape.labels - 1) sum -= sums.term(star);
  }
  return sum;
}

}  // namespace

Result<DomainIndex> DomainIndex::build(std::span<const std::string_view> patterns) {
  DomainIndex index;
  std::vector<std::optional<Shape>> parsed(patterns.size());  // nothing: exact
  // Best shape first (D-01). Literal labels, then leading, then the longer literal suffix, then
  // more labels: the last two are one comparison of the star positions from the right.
  using Rank = std::tuple<std::size_t, bool, std::vector<std::uint8_t>, std::size_t>;
  std::map<Rank, Shape, std::greater<>> ranked;
  const auto rank_of = [](const Shape& shape) {
    return Rank{shape.labels - shape.stars.size(), shape.leading, shape.stars, shape.labels};
  };
  std::size_t inner = 0;
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < patterns.size(); ++i) {
    const std::string_view pattern = patterns[i];
    bytes += pattern.size();
    if (pattern == "*") index.catch_all_ = i;
    if (pattern.find('*') == std::string_view::npos) {
      index.has_exact_ = true;
      continue;
    }
    Shape shape;
    shape.leading = pattern.front() == '*';
    std::string_view rest = pattern;
    for (;;) {
      const auto dot = rest.rfind('.');
      if (rest.substr(dot == std::string_view::npos ? 0 : dot + 1) == "*")
        shape.stars.push_back(shape.labels);
      ++shape.labels;
      if (dot == std::string_view::npos) break;
      rest = rest.substr(0, dot);
    }
    const bool has_inner = shape.stars.size() > (shape.leading ? 1U : 0U);
    if (ranked.emplace(rank_of(shape), shape).second && has_inner && ++inner > kMaxInnerShapes) {
      return fail(
          Code::invalid,
          fmt::format("more than {} different arrangements of inner wildcards", kMaxInnerShapes));
    }
    parsed[i] = std::move(shape);
  }

  std::map<Rank, std::size_t> numbers;
  for (const auto& [rank, shape] : ranked) {
    numbers.emplace(rank, index.shapes_.size());
    index.shapes_.push_back(shape);
  }
  index.text_.reserve(bytes);
  if (!patterns.empty()) index.slots_.resize(std::bit_ceil(patterns.size() * 2));
  for (std::size_t i = 0; i < patterns.size(); ++i) {
    const LabelSums sums(patterns[i]);
    std::uint64_t hash = 0;
    if (!parsed[i]) {
      hash = key_of(sums.before[sums.count], kExact);
    } else {
      const Shape& shape = *parsed[i];
      hash = key_of(masked_sum(sums, {shape.leading, shape.labels, shape.stars}),
                    numbers.at(rank_of(shape)));
    }
    const std::size_t mask = index.slots_.size() - 1;
    std::size_t at = hash & mask;
    while (index.slots_[at].hash != 0) at = (at + 1) & mask;
    index.slots_[at] =
        Slot{hash, static_cast<std::uint32_t>(index.text_.size()), static_cast<std::uint32_t>(i),
             static_cast<std::uint32_t>(patterns[i].size())};
    index.text_ += patterns[i];
  }
  return index;
}

const DomainIndex::Slot* DomainIndex::probe(std::uint64_t hash, std::string_view name) const {
  const std::size_t mask = slots_.size() - 1;
  for (std::size_t at = hash & mask; slots_[at].hash != 0; at = (at + 1) & mask) {
    const Slot& slot = slots_[at];
    if (slot.hash != hash) continue;
    if (pattern_matches(std::string_view(text_).substr(slot.offset, slot.length), name))
      return &slot;
  }
  return nullptr;
}

std::optional<std::size_t> DomainIndex::find(std::string_view name) const {
  if (slots_.empty() || name.empty()) return std::nullopt;
  const LabelSums sums(name);
  if (has_exact_) {
    if (const Slot* slot = probe(key_of(sums.before[sums.count], kExact), name))
      return slot->position;
  }
  for (std::size_t i = 0; i < shapes_.size(); ++i) {
    const Shape& shape = shapes_[i];
    if (shape.leading ? sums.count < shape.labels : sums.count != shape.labels) continue;
    const std::uint64_t sum = masked_sum(sums, {shape.leading, shape.labels, shape.stars});
    if (const Slot* slot = probe(key_of(sum, i), name)) return slot->position;
  }
  return std::nullopt;
}

}  // namespace sallyport::policy
