// SPDX-License-Identifier: Apache-2.0
// Egress lines for what the worker never sees itself: packets that nftables refused (NFLOG) and
// flows that the kernel forwarded (conntrack, at their end). Reads the two inherited netlink
// sockets and needs no privilege for it. Identical refusals become one line with a count, so that a
// guest cannot fill the log.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <chrono>
#include <memory>

#include "base/fd.h"
#include "firewall/audit.h"
#include "firewall/gate.h"

namespace sallyport::firewall {

class KernelLog {
 public:
  struct Options {
    std::chrono::milliseconds repeat_window{10000};
  };

  // Either descriptor may be absent. Gate and audit are borrowed. Use from the thread of `executor`
  // only.
  KernelLog(boost::asio::any_io_executor executor, Fd nflog, Fd conntrack, Gate& gate, Audit& audit,
            Options options);
  KernelLog(boost::asio::any_io_executor executor, Fd nflog, Fd conntrack, Gate& gate,
            Audit& audit);
  ~KernelLog();  // stop()
  KernelLog(const KernelLog&) = delete;
  KernelLog& operator=(const KernelLog&) = delete;

  void start();
  void stop();   // reads what is waiting, writes what is still counted, then nothing more
  void drain();  // reads what is waiting now

 private:
  class State;
  std::shared_ptr<State> state_;
};

}  // namespace sallyport::firewall
