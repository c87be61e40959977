// SPDX-License-Identifier: Apache-2.0
// The JSON inside the agent's answers and records, read as hostile text: bounded, typed, anything
// odd is an error. Pure functions; fuzzed with the session by fuzz/agent_client_fuzz.cc.
#pragma once

#include <string>

#include "base/result.h"
#include "driver/agent_client.h"
#include "driver/agent_link.h"
#include "guest/protocol.h"

namespace sallyport::driver {

[[nodiscard]] Result<AgentHealth> read_health(const AgentAnswer& answer);
// An answer that is not 200, as our error: 404 is not_found, 400 invalid, all else unavailable. The
// message is the agent's, cut and made printable.
[[nodiscard]] Error read_refusal(const AgentAnswer& answer);
[[nodiscard]] Result<int> read_started(const guest::Record& record);  // the pid
// `out`, `err` and `exit` records; `started` is an error here.
[[nodiscard]] Result<CommandEvent> read_event(const guest::Record& record);

}  // namespace sallyport::driver
