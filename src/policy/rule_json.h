// SPDX-License-Identifier: Apache-2.0
// The rules of one domain from and to JSON: transform, forwardURL, response (spec 2.1;
// refusals ). Used by policy_json.h alone.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "policy/match_json.h"
#include "policy/policy.h"

namespace sallyport::policy {

inline constexpr std::size_t kMaxRuleHeaders = 64;  // set by one rule
inline constexpr std::size_t kMaxHeaderName = 256;
inline constexpr std::size_t kMaxHeaderValue = 16U << 10;
inline constexpr std::size_t kMaxForwardUrl = 2048;
inline constexpr std::size_t kMaxResponseBody = 64U << 10;

inline constexpr std::string_view kRedacted = "<redacted>";

// "$.allow.x[0].match: must not be empty", with a path of sane length.
[[nodiscard]] std::unexpected<Error> refuse(std::string_view path, std::string_view reason);
// Refuses the first key of `object` that is not in `known`.
[[nodiscard]] Result<> only_keys(const json::object& object,
                                 std::initializer_list<std::string_view> known,
                                 std::string_view path);

[[nodiscard]] Result<std::vector<Rule>> rules_from_json(const json::array& rules,
                                                        const std::string& path,
                                                        RuleBudget& budget);
// An entry of the legacy `injectionRules`: headers and match, without its domain.
[[nodiscard]] Result<Rule> injection_from_json(const json::object& entry, const std::string& path,
                                               RuleBudget& budget);

enum class Secrets { revealed, redacted };
[[nodiscard]] json::value render_rule(const Rule& rule, Secrets secrets);

}  // namespace sallyport::policy
