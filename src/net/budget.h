// SPDX-License-Identifier: Apache-2.0
// A bounded amount of something that is taken and given back.
#pragma once

#include <cstddef>

namespace sallyport::net {

class Budget {
 public:
  explicit Budget(std::size_t limit) : limit_(limit) {}
  [[nodiscard]] bool take(std::size_t count = 1) {
    if (used_ > limit_ || count > limit_ - used_) return false;
    used_ += count;
    return true;
  }
  void give(std::size_t count = 1) { used_ -= count; }
  void set_limit(std::size_t limit) { limit_ = limit; }
  [[nodiscard]] std::size_t used() const { return used_; }
  [[nodiscard]] std::size_t limit() const { return limit_; }

 private:
  std::size_t limit_;
  std::size_t used_ = 0;
};

}  // namespace sallyport::net
