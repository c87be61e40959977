// SPDX-License-Identifier: Apache-2.0
// What a valid policy may not mean as its author thinks: for `sandbox policy check`. Nothing here
// changes a decision.
#pragma once

#include <string>
#include <vector>

#include "policy/policy.h"

namespace sallyport::policy {

[[nodiscard]] std::vector<std::string> notes(const Policy& policy);

}  // namespace sallyport::policy
