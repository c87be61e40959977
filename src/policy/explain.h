// SPDX-License-Identifier: Apache-2.0
// Tells a person what a policy does with a target and why, for `sandbox policy explain`. Asks the
// same functions as the firewall (decide.h) and looks nothing up: where the answer depends on an
// address that a name may have, it says so.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "policy/decide.h"

namespace sallyport::policy {

struct Explanation {
  Decision decision;
  std::vector<std::string> lines;  // the path to the decision, the verdict last

  [[nodiscard]] bool allowed() const { return decision.access == Access::allow; }
};

// `target`: a URL, "host:port", "address:port", "[v6]:port", a host or an address. A URL is judged
// by its scheme; a bare host as TLS; a port of a protocol that does not begin with TLS (22, 25, 80
// ...) as such, 5432 as Postgres.
[[nodiscard]] Result<Explanation> explain(const Policy& policy, const Boundary& boundary,
                                          std::string_view target);

// One sentence per reason code: "this name is not among the allowed domains".
[[nodiscard]] std::string_view sentence(Reason reason);

}  // namespace sallyport::policy
