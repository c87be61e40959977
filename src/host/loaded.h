// SPDX-License-Identifier: Apache-2.0
// What this process has loaded into the router namespaces it serves, so that an update sends the
// difference only, over a socket that is open already. Nothing here is needed for correctness: what
// is not known is replaced whole.
#pragma once

#include <map>
#include <mutex>
#include <optional>
#include <string>

#include "host/netfilter_socket.h"
#include "host/ruleset.h"

namespace sallyport::host {

struct Loaded {
  NetfilterSocket socket;
  std::optional<JudgementMap> map;  // absent: whatever the namespace was left with
};

class LoadedMaps {
 public:
  // Removes it: whoever fails halfway does not put it back, and the next one starts from nothing.
  std::optional<Loaded> take(const std::string& id) {
    const std::lock_guard lock(mutex_);
    auto node = loaded_.extract(id);
    if (node.empty()) return std::nullopt;
    return std::move(node.mapped());
  }
  void put(const std::string& id, Loaded loaded) {
    const std::lock_guard lock(mutex_);
    loaded_.insert_or_assign(id, std::move(loaded));
  }

 private:
  std::mutex mutex_;
  std::map<std::string, Loaded> loaded_;
};

}  // namespace sallyport::host
