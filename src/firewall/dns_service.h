// SPDX-License-Identifier: Apache-2.0
// The DNS server that a sandbox sees at every address (FW-072, R-082): port 53 over UDP and TCP is redirected to these
// sockets whatever resolver the guest dialled. Each question is judged by policy::decide_dns before anything else is done with
// it: a denied one is answered here at once and never leaves the host (D-04, R-080, R-081); an allowed one is looked
// up by the resolver and its answer returned whole, without `ech` (D-05, R-083, R-084).
// Holds no policy: asks the one in force at each question, and again before an answer is sent (I4).
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/address.h"
#include "base/fd.h"
#include "net/resolver.h"
#include "policy/decide.h"

namespace sallyport::firewall {

// A denied question, for the egress log. Identical repeats are reported as a count, so that a guest cannot fill the log.
struct DnsDenial {
  std::string name;  // presentation form, no trailing dot; "" if the question could not be read
  std::uint16_t type = 0;
  bool over_tcp = false;
  std::optional<Endpoint> destination;  // the resolver that the guest dialled, where known (TCP)
  std::string_view reason;              // policy::to_string(Reason) or "query_type_refused"
  std::string entry;                    // as Decision::entry
  std::uint64_t times = 1;              // identical questions since the last line for it, this one included
};

class DnsService {
 public:
  struct Options {
    std::size_t max_in_flight = 512;          // questions being looked up, UDP and TCP together
    std::size_t max_connections = 64;         // DNS over TCP
    std::size_t max_pipelined = 16;           // questions in progress on one connection
    std::chrono::milliseconds message_deadline{5000};  // from the first byte of a length to the last of its message
    std::chrono::milliseconds idle{10000};             // a connection without question
    std::chrono::milliseconds write_deadline{5000};
    std::chrono::milliseconds lifetime{120000};        // of a connection, whatever it does
    std::chrono::milliseconds repeat_window{10000};    // identical denials within it become one line with a count
  };
  struct Hooks {
    // policy::decide_dns with the policy in force; while there is none yet it must deny.
    std::function<policy::Decision(std::string_view name)> judge;
    std::function<void(const DnsDenial&)> denied;
  };
  struct Sockets {  // any may be absent
    Fd udp4, udp6, tcp4, tcp6;
  };
  struct Rejudged {
    unsigned kept = 0, cut = 0;  // connections
  };
  struct Stats {
    std::uint64_t udp_queries = 0, tcp_queries = 0, denied = 0, overloaded = 0;
    std::size_t connections = 0, in_flight = 0;
  };

  // `resolver` is borrowed and must outlive the service. Use from the thread of `executor` only.
  DnsService(boost::asio::any_io_executor executor, Sockets sockets, Resolver& resolver, Hooks hooks, Options options);
  DnsService(boost::asio::any_io_executor executor, Sockets sockets, Resolver& resolver, Hooks hooks);
  ~DnsService();  // stop()
  DnsService(const DnsService&) = delete;
  DnsService& operator=(const DnsService&) = delete;

  void start();
  void stop();  // closes every socket; nothing is sent or reported afterwards

  // Between prepare and commit or abort of an update: questions wait (in the socket buffers), lookups under way go on.
  void hold();
  void release();
  // After the new policy is in force, before release(). Cuts the DNS-over-TCP connections if it lets no name be looked up
  // (R-094, D-15); else they are kept, as each question and each answer is judged anyway.
  Rejudged rejudge(bool every_name_denied);

  [[nodiscard]] Stats stats() const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace sallyport::firewall
