// SPDX-License-Identifier: Apache-2.0
// Makes the guest notice that its kernel-forwarded TCP connections were cut. A guest that
// only receives would otherwise wait for ever, and nobody here knows the sequence numbers of a
// reset it would believe. So each of its sockets is shown a bare SYN from the far end: RFC 5961
// section 4.2 has it answer with a challenge ACK that carries the right numbers, and that ACK is
// refused by the ruleset with a reset made from them.
#pragma once

#include <span>

#include "host/conntrack.h"

namespace sallyport::host {

// In the router namespace, after the flows were deleted. Best effort: the flows are cut either way.
void nudge(std::span<const TrackedFlow> flows);

}  // namespace sallyport::host
