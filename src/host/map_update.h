// SPDX-License-Identifier: Apache-2.0
// Changes the judgement maps of a router namespace, both families in one transaction (I4, R-095).
// Speaks netlink itself: libnftables needs over 150 ms for 10,000 ranges, since it parses and
// prints numbers and reads the old map back. The kernel alone needs 30 ms for as many, so only what
// differs is sent.
#pragma once

#include "base/result.h"
#include "host/netfilter_socket.h"
#include "host/ruleset.h"

namespace sallyport::host {

// `before` is what the kernel has, or null if that is not known: then everything is replaced.
[[nodiscard]] Result<> load_judgements(NetfilterSocket& socket, const JudgementMap& now,
                                       const JudgementMap* before);

}  // namespace sallyport::host
