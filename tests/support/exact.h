// SPDX-License-Identifier: Apache-2.0
// Bytes in a heap block of exactly their size, so that ASan sees a read of one byte too many.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string_view>

#include "base/bytes.h"

namespace sallyport::test {

class Exact {
 public:
  explicit Exact(std::string_view text)
      : block_(std::make_unique<std::uint8_t[]>(text.size())), size_(text.size()) {
    std::copy(text.begin(), text.end(), block_.get());
  }
  [[nodiscard]] Bytes bytes() const { return {block_.get(), size_}; }
  operator Bytes() const { return bytes(); }

 private:
  std::unique_ptr<std::uint8_t[]> block_;
  std::size_t size_;
};

}  // namespace sallyport::test
