// SPDX-License-Identifier: Apache-2.0
// The policy language: JSON in (spec 2.1, legacy form too), values out, and back. Every refusal of
// spec 2.2 names the JSON path of the offending entry: "$.allow[\"api*.example.com\"]: a wildcard
// must be a whole label".
#pragma once

#include <string>
#include <string_view>

#include "base/json.h"
#include "base/result.h"
#include "policy/policy.h"

namespace sallyport::policy {

inline constexpr std::size_t kMaxPolicyBytes = 8U << 20;
inline constexpr std::size_t kMaxDomains = 100'000;
inline constexpr std::size_t kMaxRulesPerDomain = 64;
inline constexpr std::size_t kMaxRanges = 4096;  // allow and deny each

[[nodiscard]] Result<PolicyPtr> parse_policy(std::string_view text);
// `at` is the path prefix for messages: "$" or "$.networkPolicy". Also accepts the bare strings
// "allow-all", "deny-all".
[[nodiscard]] Result<PolicyPtr> policy_from_json(const json::value& value,
                                                 std::string_view at = "$");

// The normal form in the request grammar, secrets included: what is stored and sent to the worker.
// parse(render(p)) == p.
[[nodiscard]] Secret render_request(const Policy& policy);
// The same as a value, for a message that carries it. Holds the secrets: pass it on, never keep it.
[[nodiscard]] json::value request_json(const Policy& policy);
// The same with every header value replaced by "<redacted>": for people (`sandbox policy check`).
[[nodiscard]] json::value render_redacted(const Policy& policy);
// The response grammar (spec 2.3), header names only (FW-113).
[[nodiscard]] json::value render_response(const Policy& policy);

[[nodiscard]] PolicyPtr allow_all();
[[nodiscard]] PolicyPtr deny_all();

}  // namespace sallyport::policy
