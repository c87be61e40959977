// SPDX-License-Identifier: Apache-2.0
#include "sandbox/slots.h"

#include <algorithm>

namespace sallyport::sandbox {

std::optional<unsigned> Slots::take() {
  const std::lock_guard lock(mutex_);
  unsigned slot = 0;
  for (const unsigned used :
       used_) {  // ordered, so the first gap is the lowest free one; resting ones are in it too
    if (used != slot) break;
    ++slot;
  }
  if (slot < count_) {
    used_.insert(slot);
    return slot;
  }
  if (resting_.empty()) return std::nullopt;
  slot = resting_.front();  // still in used_
  resting_.pop_front();
  return slot;
}

bool Slots::take_exactly(unsigned slot) {
  const std::lock_guard lock(mutex_);
  return slot < count_ && used_.insert(slot).second;
}

void Slots::release(unsigned slot) {
  const std::lock_guard lock(mutex_);
  if (!used_.contains(slot) || std::ranges::find(resting_, slot) != resting_.end()) return;
  resting_.push_back(slot);
  if (resting_.size() <= kResting) return;
  used_.erase(resting_.front());
  resting_.pop_front();
}

}  // namespace sallyport::sandbox
