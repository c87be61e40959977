// SPDX-License-Identifier: Apache-2.0
// Accepts connections on an inherited listener. Out of descriptors or memory, it waits a little
// instead of spinning; connections that are open go on meanwhile.
#pragma once

#include <functional>

#include "base/address.h"
#include "base/fd.h"
#include "net/reactor.h"
#include "net/task.h"

namespace sallyport::net {

class Listener {
 public:
  // `local` is the address the client dialled; under TPROXY that is its original destination.
  // Nothing for a socket that is not AF_INET or AF_INET6.
  using OnAccept = std::function<void(Fd connection, const Endpoint& local)>;

  Listener(Reactor& reactor, Fd listener, OnAccept on_accept);

  Task<> run();  // for ever: spawn it once
  // Connections are announced only once they carry bytes, which saves a wake-up each. Not where a
  // server may speak first or silence is an answer of its own: the kernel then holds a silent one
  // back for at least a second.
  void announce_with_data(bool on);
  [[nodiscard]] const std::optional<Endpoint>& address() const { return address_; }

 private:
  bool accept_one();  // false: nothing more now

  Bell bell_;
  Timer backoff_;
  Socket socket_;
  OnAccept on_accept_;
  std::optional<Endpoint> address_;
  bool exhausted_ = false;
  Clock::time_point complained_{};
};

}  // namespace sallyport::net
