// SPDX-License-Identifier: Apache-2.0
// Unix sockets that tell nothing about this machine. A socket belongs to the network namespace it
// was made in, and whoever holds its descriptor may ask it about that namespace's interfaces
// (SIOCGIFCONF and friends). Both ends of the agent channel end up in the guest's hands (it holds
// the listener; an accepted socket belongs to the connecting one's namespace), so both are made in
// an empty namespace that exists for nothing else.
#pragma once

#include "base/fd.h"
#include "base/result.h"

namespace sallyport::driver {

// SOCK_STREAM, close-on-exec. Without the privilege to make namespaces (tests) it is an ordinary
// socket.
[[nodiscard]] Result<Fd> quiet_unix_socket();

}  // namespace sallyport::driver
