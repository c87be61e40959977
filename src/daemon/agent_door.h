// SPDX-License-Identifier: Apache-2.0
// sandbox/agent.h on top of driver/agent_client.h: callbacks on the loop instead of coroutines, a
// connection that is made again when it was lost, and pause() as simply not asking for the next
// piece of output.
#pragma once

#include "sandbox/agent.h"
#include "sandbox/loop.h"

namespace sallyport::daemon {

[[nodiscard]] sandbox::AgentConnector agent_connector(sandbox::Loop& loop);

}  // namespace sallyport::daemon
