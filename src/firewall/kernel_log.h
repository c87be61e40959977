// SPDX-License-Identifier: Apache-2.0
// Egress lines for what the worker never sees itself: packets that nftables refused (NFLOG) and flows that the kernel
// forwarded (conntrack, at their end). Reads the two inherited netlink sockets and needs no privilege for it. Identical
// refusals become one line with a count, so that a guest cannot fill the log.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "base/address.h"
#include "base/fd.h"

namespace sallyport::firewall {

struct KernelLine {
  bool allowed = false;
  std::string reason;         // of the NFLOG prefix; "forwarded" for an allowed flow
  std::uint8_t protocol = 0;  // IANA number
  Endpoint source, destination;
  std::uint64_t times = 1;  // packets refused since the last line for the same thing, this one included
  std::uint64_t bytes_up = 0, bytes_down = 0;
  std::chrono::milliseconds duration{0};
};
[[nodiscard]] std::string_view protocol_name(std::uint8_t protocol);  // "tcp", "udp", "icmp", "other"

class KernelLog {
 public:
  using Sink = std::function<void(const KernelLine&)>;
  struct Options {
    std::chrono::milliseconds repeat_window{10000};
  };

  // Either descriptor may be absent. Use from the thread of `executor` only.
  KernelLog(boost::asio::any_io_executor executor, Fd nflog, Fd conntrack, Sink sink, Options options);
  KernelLog(boost::asio::any_io_executor executor, Fd nflog, Fd conntrack, Sink sink);
  ~KernelLog();  // stop()
  KernelLog(const KernelLog&) = delete;
  KernelLog& operator=(const KernelLog&) = delete;

  void start();
  void stop();   // reports what is still counted, then nothing more
  void drain();  // reads what is waiting now: before an update is acknowledged, and at the end

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace sallyport::firewall
