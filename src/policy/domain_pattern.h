// SPDX-License-Identifier: Apache-2.0
// Domain patterns as users write them, brought to the normal form of host names (base/host_name.h):
// lower case, A-labels, no trailing dot (D-03). A `*` is a whole label: first it stands for
// one or more labels, elsewhere for exactly one, alone for every name (D-02). Which of several
// patterns wins is domain_index.h's business.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace sallyport::policy {

// A user's pattern to its normal form; the error is the reason alone, without the pattern (R-11,
//
[[nodiscard]] Result<std::string> parse_domain_pattern(std::string_view text);

// Does a pattern match a name, both in normal form? The definition that domain_index.h must agree
// with.
[[nodiscard]] bool pattern_matches(std::string_view pattern, std::string_view name);

}  // namespace sallyport::policy
