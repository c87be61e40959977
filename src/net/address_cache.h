// SPDX-License-Identifier: Apache-2.0
// Addresses of names for as long as their TTL allows; TTL 0 is never kept. Bounded: when
// full, a few entries make room, expired ones first. The clock is the caller's.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/address.h"

namespace sallyport {

class AddressCache {
 public:
  using Time = std::chrono::steady_clock::time_point;

  AddressCache(std::size_t capacity, std::chrono::seconds max_ttl)
      : capacity_(capacity), max_ttl_(max_ttl) {}

  void put(const std::string& key, std::vector<Address> addresses, std::chrono::seconds ttl,
           Time now);
  // Null when unknown or expired. Valid until the next call.
  [[nodiscard]] const std::vector<Address>* find(const std::string& key, Time now);
  [[nodiscard]] std::size_t size() const { return entries_.size(); }

 private:
  struct Entry {
    std::vector<Address> addresses;
    Time expires;
  };
  void make_room(Time now);

  std::size_t capacity_;
  std::chrono::seconds max_ttl_;
  std::unordered_map<std::string, Entry> entries_;
};

}  // namespace sallyport
