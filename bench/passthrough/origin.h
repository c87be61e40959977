// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/address.h"

namespace sallyport::bench {

void run_origin(const Endpoint& at);  // for ever

}  // namespace sallyport::bench
