// SPDX-License-Identifier: Apache-2.0
// A view of untrusted bytes and a big-endian cursor over it that cannot leave it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace sallyport {

using Bytes = std::span<const std::uint8_t>;

inline Bytes as_bytes(std::string_view text) {
  return {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()};
}
inline std::string_view as_text(Bytes bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// Reads from the front. Every read says whether it fitted; nothing is consumed when it did not.
class Reader {
 public:
  explicit Reader(Bytes bytes) : rest_(bytes) {}

  [[nodiscard]] std::size_t left() const { return rest_.size(); }
  [[nodiscard]] bool empty() const { return rest_.empty(); }
  [[nodiscard]] Bytes rest() const { return rest_; }

  std::optional<Bytes> take(std::size_t count) {
    if (count > rest_.size()) return std::nullopt;
    const Bytes head = rest_.first(count);
    rest_ = rest_.subspan(count);
    return head;
  }
  std::optional<std::uint8_t> u8() { return number<std::uint8_t, 1>(); }
  std::optional<std::uint16_t> u16() { return number<std::uint16_t, 2>(); }
  std::optional<std::uint32_t> u24() { return number<std::uint32_t, 3>(); }
  std::optional<std::uint32_t> u32() { return number<std::uint32_t, 4>(); }

 private:
  template <class T, std::size_t N>
  std::optional<T> number() {
    const auto raw = take(N);
    if (!raw) return std::nullopt;
    std::uint32_t value = 0;
    for (const std::uint8_t byte : *raw) value = (value << 8) | byte;
    return static_cast<T>(value);
  }

  Bytes rest_;
};

}  // namespace sallyport
