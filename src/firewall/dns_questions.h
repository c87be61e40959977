// SPDX-License-Identifier: Apache-2.0
// What happens to one DNS question, whatever it came over: read, judge, answer at once or look up,
// judge again, answer. Knows no sockets; dns_service.cc and dns_stream.cc carry the bytes.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "base/bytes.h"
#include "dns/message.h"
#include "firewall/audit.h"
#include "firewall/gate.h"
#include "firewall/repeated_lines.h"
#include "net/resolver.h"

namespace sallyport::firewall {

class DnsQuestions {
 public:
  // Where a question came from, for its egress line. The destination is asked for only when a line
  // is written.
  struct Origin {
    const char* transport = "UDP";
    std::function<std::optional<Endpoint>()> destination;
  };
  // A reply to send now ("" is silence), or a query to hand to look_up().
  struct Received {
    std::string reply;
    std::optional<dns::Query> lookup;
  };

  DnsQuestions(boost::asio::any_io_executor executor, Resolver& resolver, Gate& gate, Audit& audit,
               std::size_t max_in_flight, std::chrono::milliseconds repeat_window);

  Received receive(Bytes message, const Origin& origin);
  // The reply, at most `limit` bytes. Ends within the resolver's deadline and the gate's hold.
  boost::asio::awaitable<std::string> look_up(dns::Query query, Origin origin, std::size_t limit);

  void stop() { lines_.flush(); }

  std::uint64_t denied = 0;
  std::uint64_t overloaded = 0;
  std::uint64_t udp_queries = 0, tcp_queries = 0;
  std::size_t in_flight = 0;

 private:
  [[nodiscard]] policy::Decision judge(const dns::Query& query) const;
  std::string deny(const dns::Query& query, const policy::Decision& decision, const Origin& origin);
  void report(const std::string& name, std::uint16_t type, std::string_view reason,
              const std::string& entry, std::string_view why, const Origin& origin);

  Resolver& resolver_;
  Gate& gate_;
  std::size_t max_in_flight_;
  RepeatedLines lines_;
};

}  // namespace sallyport::firewall
