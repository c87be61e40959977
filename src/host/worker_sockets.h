// SPDX-License-Identifier: Apache-2.0
// The sockets that a firewall worker inherits, all of the router namespace; opened on a thread that
// is in it.
#pragma once

#include <vector>

#include "base/address.h"
#include "base/fd.h"
#include "base/result.h"

namespace sallyport::host {

// In the order of firewall/control.h InheritedFd, kTcp4 to kConntrack. All non-blocking and
// close-on-exec.
[[nodiscard]] Result<std::vector<Fd>> open_worker_sockets_here(const Address& router4,
                                                               const Address& router6);

// Lets the kernel hold a new connection back until the client's first bytes are there, at most
// about `seconds`; 0 turns it off, which is the default: a protocol in which the server speaks
// first must not wait (D-08).
[[nodiscard]] Result<> set_defer_accept(const Fd& listener, int seconds);

}  // namespace sallyport::host
