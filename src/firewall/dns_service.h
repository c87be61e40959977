// SPDX-License-Identifier: Apache-2.0
// The DNS server that a sandbox sees at every address (FW-072, R-082): port 53 over UDP and TCP is
// redirected to these sockets whatever resolver the guest dialled. Each question is judged by
// policy::decide_dns before anything else is done with it: a denied one is answered here at once
// and never leaves the host (D-04, R-080, R-081); an allowed one is looked up by the resolver and
// its answer returned whole, without `ech` (D-05, R-083, R-084). Holds no policy: asks the gate at
// each question, and again before an answer is sent (I4).
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/fd.h"
#include "firewall/audit.h"
#include "firewall/gate.h"
#include "net/resolver.h"

namespace sallyport::firewall {

class DnsService {
 public:
  struct Options {
    std::size_t max_in_flight =
        512;  // questions being looked up, UDP and TCP together; more get SERVFAIL
    std::size_t max_connections = 64;  // DNS over TCP
    std::size_t max_pipelined = 8;     // lookups under way on one connection
    std::chrono::milliseconds message_deadline{
        5000};  // from the first byte of a length to the last of its message
    std::chrono::milliseconds idle{10000};  // a connection without a question
    std::chrono::milliseconds write_deadline{5000};
    std::chrono::milliseconds lifetime{120000};  // of a connection, whatever it does
    std::chrono::milliseconds repeat_window{
        10000};  // identical denials within it become one line with a count
  };
  struct Sockets {  // any may be absent
    Fd udp4, udp6, tcp4, tcp6;
  };
  struct Stats {
    std::uint64_t udp_queries = 0, tcp_queries = 0, denied = 0, overloaded = 0;
    std::size_t connections = 0, in_flight = 0;
  };

  // Resolver, gate and audit are borrowed and must outlive the service. Use from the thread of
  // `executor` only.
  DnsService(boost::asio::any_io_executor executor, Sockets sockets, Resolver& resolver, Gate& gate,
             Audit& audit, Options options);
  DnsService(boost::asio::any_io_executor executor, Sockets sockets, Resolver& resolver, Gate& gate,
             Audit& audit);
  ~DnsService();  // stop()
  DnsService(const DnsService&) = delete;
  DnsService& operator=(const DnsService&) = delete;

  void start();
  void stop();  // closes every socket; nothing is sent afterwards
  [[nodiscard]] Stats stats() const;

 private:
  class State;
  std::shared_ptr<State> state_;
};

}  // namespace sallyport::firewall
