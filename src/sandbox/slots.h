// SPDX-License-Identifier: Apache-2.0
// Small numbers that are unique while a sandbox lives; addresses, uids and links follow from them.
// The lowest free one is given out, but one just freed rests for a while behind the others, so that
// a late packet or file of the former owner does not meet the next.
#pragma once

#include <deque>
#include <mutex>
#include <optional>
#include <set>

namespace sallyport::sandbox {

class Slots {
 public:
  explicit Slots(unsigned count) : count_(count) {}

  [[nodiscard]] std::optional<unsigned> take();
  [[nodiscard]] bool take_exactly(unsigned slot);  // for what a former daemon left
  void release(unsigned slot);

 private:
  static constexpr std::size_t kResting = 64;

  std::mutex mutex_;
  unsigned count_;
  std::set<unsigned> used_;
  std::deque<unsigned> resting_;  // oldest first
};

}  // namespace sallyport::sandbox
