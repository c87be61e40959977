// SPDX-License-Identifier: Apache-2.0
#include "policy/policy.h"

#include <algorithm>

namespace sallyport::policy {

bool Policy::has_rules() const {
  return std::ranges::any_of(domains,
                             [](const DomainEntry& entry) { return !entry.rules.empty(); });
}

bool Policy::denies_everything() const {
  return mode == Mode::deny_all || (mode == Mode::custom && domains.empty() && allowed.empty());
}

}  // namespace sallyport::policy
