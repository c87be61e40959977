// SPDX-License-Identifier: Apache-2.0
// Host names as the network sends them and domain patterns as users write them, both in one normal
// form: lower case, A-labels, no trailing dot (D-03). A `*` is a whole label: first it stands for
// one or more labels, elsewhere for exactly one, alone for every name (D-02). Which of several
// patterns wins is domain_index.h's business.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace sallyport::policy {

inline constexpr std::size_t kMaxName = 253;
inline constexpr std::size_t kMaxLabel = 63;

// A name that a guest sent, in an SNI or a DNS question (presentation form). Nothing if it is no
// host name: empty, too long, an IP literal or something that inet_aton would take for one (the
// last label a number), or any byte that is not a letter, digit, hyphen, underscore or dot.
[[nodiscard]] std::optional<std::string> parse_host_name(std::string_view bytes);

// True if parse_host_name would give back exactly these bytes.
[[nodiscard]] bool is_normal_host_name(std::string_view name);

// A user's pattern to its normal form; the error is the reason alone, without the pattern (R-11,
//
[[nodiscard]] Result<std::string> parse_domain_pattern(std::string_view text);

// Does a pattern match a name, both in normal form? The definition that domain_index.h must agree
// with.
[[nodiscard]] bool pattern_matches(std::string_view pattern, std::string_view name);

}  // namespace sallyport::policy
