// SPDX-License-Identifier: Apache-2.0
// Gives up, in numbered stages, everything the worker can do without (I6). The supervisor started
// it already under a uid of its own and without capabilities; what is done here is to be true even
// if that went wrong.
#pragma once

#include "base/result.h"

namespace sallyport::firewall {

// Every stage or an error: the worker ends rather than run with a part of them.
[[nodiscard]] Result<> give_up_privileges();

}  // namespace sallyport::firewall
