// SPDX-License-Identifier: Apache-2.0
// A hash map with expiry; room is made for an eighth at a time, so that a full cache costs a
// constant per insertion.
#include "net/address_cache.h"

#include <algorithm>

namespace sallyport {

void AddressCache::put(const std::string& key, std::vector<Address> addresses,
                       std::chrono::seconds ttl, Time now) {
  if (ttl <= std::chrono::seconds(0) || addresses.empty() || capacity_ == 0) {
    entries_.erase(key);
    return;
  }
  if (entries_.size() >= capacity_ && !entries_.contains(key)) make_room(now);
  entries_[key] = {std::move(addresses), now + std::min(ttl, max_ttl_)};
}

const std::vector<Address>* AddressCache::find(const std::string& key, Time now) {
  const auto found = entries_.find(key);
  if (found == entries_.end()) return nullptr;
  if (found->second.expires > now) return &found->second.addresses;
  entries_.erase(found);
  return nullptr;
}

void AddressCache::make_room(Time now) {
  std::erase_if(entries_, [now](const auto& entry) { return entry.second.expires <= now; });
  if (entries_.size() < capacity_) return;
  const std::size_t keep = capacity_ - std::max<std::size_t>(1, capacity_ / 8);
  while (entries_.size() > keep) entries_.erase(entries_.begin());
}

}  // namespace sallyport
