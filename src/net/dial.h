// SPDX-License-Identifier: Apache-2.0
// Connects to the first of several addresses that answers, the way of RFC 8305: one attempt is
// given a head start, then the next joins it; the first that connects wins and the others are
// closed. Every wait has an end. Which addresses may be tried is decided before
// (policy::decide_dial).
#pragma once

#include <chrono>
#include <memory>
#include <span>
#include <vector>

#include "base/address.h"
#include "base/result.h"
#include "net/reactor.h"
#include "net/task.h"

namespace sallyport::net {

struct DialOptions {
  std::chrono::milliseconds head_start{250};  // RFC 8305 s5
  std::chrono::milliseconds deadline{10000};  // for all attempts together
  std::size_t max_attempts = 8;
  // Bytes will be sent as soon as the connection stands, so the acknowledgement of the handshake
  // may wait for them: one packet less. Not for a server that speaks first, which would see the
  // connection late.
  bool speaks_first = true;
};

struct Dialled {
  std::unique_ptr<Socket> socket;  // watched by the bell
  Endpoint endpoint;
};

// In the order given. The error is the last attempt's: "connect to 198.18.0.10:443: Connection
// refused". A cancelled bell ends it with Code::denied.
Task<Result<Dialled>> dial(Bell& bell, std::vector<Endpoint> endpoints, DialOptions options);

}  // namespace sallyport::net
