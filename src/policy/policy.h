// SPDX-License-Identifier: Apache-2.0
// A network policy as values: what a sandbox may reach (access) and what happens to requests
// (handling). Built only by policy_json.h, immutable afterwards, shared as shared_ptr<const Policy>
// and swapped whole. Grammar: spec of docs/policy.md. Says nothing about sockets; the questions are
// asked in decide.h.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/address.h"
#include "base/range_set.h"
#include "base/secret.h"
#include "policy/domain_index.h"
#include "policy/matcher.h"
#include "policy/range_index.h"

namespace sallyport::policy {

enum class Mode { allow_all, deny_all, custom };

struct HeaderValue {
  std::string name;  // as the user wrote it
  Secret value;
};
struct Transform {
  std::vector<HeaderValue>
      headers;  // several transform objects already merged in order, the later wins
};
struct Forward {
  std::string url;  // exactly as configured: it becomes `aud`
};
struct Response {
  int status = 200;
  std::vector<HeaderValue> headers;
  std::optional<std::string> body;
  std::optional<std::string> content_type;
};
struct Rule {
  std::optional<RequestMatch> match;  // absent: every request
  std::variant<Transform, Forward, Response> action;
};
struct DomainEntry {
  std::string pattern;  // normal form: lower case, A-labels, no trailing dot
  std::vector<Rule> rules;
};

struct Policy {
  Mode mode = Mode::deny_all;
  std::vector<DomainEntry> domains;  // in the order given (the round trip keeps it)
  std::vector<Cidr> allowed;         // in the order given
  std::vector<Cidr> denied;

  // Compiled from the above by the parser; equal inputs give equal answers.
  DomainIndex domain_index;  // pattern -> position in `domains`
  RangeSet allowed_set;
  // Denied IPv4 ranges also in their 6to4 and NAT64 forms. nftables must be given the sets,
  // not the lists.
  RangeSet denied_set;
  RangeIndex allowed_index;  // which entry, for the log
  RangeIndex denied_index;

  [[nodiscard]] bool has_rules() const;
  // A custom policy whose allow side is empty, or deny-all (FW-060 to FW-064).
  [[nodiscard]] bool denies_everything() const;
};

using PolicyPtr = std::shared_ptr<const Policy>;

}  // namespace sallyport::policy
