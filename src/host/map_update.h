// SPDX-License-Identifier: Apache-2.0
// Replaces the judgement maps of the router namespace of the calling thread, both families in one transaction (I4, R-095).
// Speaks netlink itself: libnftables needs over 150 ms for 10,000 ranges, since it parses and prints numbers and reads the
// old map back; a live update is to be acknowledged within 20 ms.
#pragma once

#include "base/result.h"
#include "host/ruleset.h"

namespace sallyport::host {

[[nodiscard]] Result<> load_judgements(const JudgementMap& map);

}  // namespace sallyport::host
