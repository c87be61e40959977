// SPDX-License-Identifier: Apache-2.0
// Runs nftables text in the network namespace of the calling thread, as one transaction: all of it
// or nothing.
#pragma once

#include <string>

#include "base/result.h"

namespace sallyport::host {

[[nodiscard]] Result<> run_nft(const std::string& commands);

}  // namespace sallyport::host
