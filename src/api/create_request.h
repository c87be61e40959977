// SPDX-License-Identifier: Apache-2.0
// The body of a create call: every field of spec/api.md 1.4 checked, and what this version cannot
// do refused by name.
#pragma once

#include "api/http.h"
#include "base/result.h"
#include "sandbox/supervisor.h"

namespace sallyport::api {

struct ParsedCreate {
  sandbox::CreateRequest request;
  bool interactive = false;  // "__interactive": the client looks for session.interactivePort
};
[[nodiscard]] Result<ParsedCreate> parse_create(const json::object& body,
                                                const Principal& principal,
                                                store::Millis longest_timeout);

}  // namespace sallyport::api
