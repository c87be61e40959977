// SPDX-License-Identifier: Apache-2.0
// One TCP session of the firewall between a client and an origin in a network of their own, with a
// resolver that answers from a table. The test networks are opened in the boundary; what a test
// wants closed it closes.
#pragma once

#include <gmock/gmock.h>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "firewall/egress_lines.h"
#include "firewall/tcp_session.h"
#include "policy/policy_json.h"
#include "support/hello.h"
#include "support/loopback.h"
#include "support/own_network.h"

namespace sallyport::test {

class NamesToAddresses final : public Resolver {
 public:
  explicit NamesToAddresses(boost::asio::io_context& io)
      : release_(io, std::chrono::steady_clock::time_point::max()) {}

  boost::asio::awaitable<Result<Resolution>> resolve(std::string name, bool, bool) override {
    ++asked[name];
    while (holding) co_await release_.async_wait(boost::asio::as_tuple(boost::asio::use_awaitable));
    if (name == "silent.example")
      co_return fail(Code::timed_out, "silent.example: no answer in time");
    Resolution out;
    for (const auto& text : table[name]) out.addresses.push_back(*Address::parse(text));
    out.rcode = out.addresses.empty() ? 3 : 0;
    co_return out;
  }
  boost::asio::awaitable<Result<std::vector<std::uint8_t>>> query(std::string,
                                                                  std::uint16_t) override {
    ADD_FAILURE() << "a TCP session asks for addresses";
    co_return fail(Code::internal, "not expected");
  }
  void release() {
    holding = false;
    release_.cancel();
  }

  std::map<std::string, std::vector<std::string>> table;
  std::map<std::string, int> asked;
  bool holding = false;

 private:
  boost::asio::steady_timer release_;
};

class SessionFixture : public LoopFixture {
 protected:
  SessionFixture() {
    close({});
    room.limits.opening.grace = std::chrono::milliseconds(20);
    resolver.table["allowed.example"] = {"198.18.0.1"};
  }
  ~SessionFixture() override {
    tasks.cancel();
    io.restart();
    io.poll();
  }

  // The boundary: the test networks but for these.
  void close(const std::vector<std::string>& ranges) {
    std::vector<Cidr> closed;
    for (const auto& range : ranges) closed.push_back(*Cidr::parse(range));
    gate.set_boundary({closed, {*Cidr::parse("198.18.0.0/15"), *Cidr::parse("2001:db8::/32")}, {}});
  }
  firewall::Gate::Applied apply(std::string_view policy) {
    auto parsed = policy::parse_policy(policy);
    EXPECT_TRUE(parsed) << parsed.error().message;
    gate.prepare(++version, *parsed);
    const auto applied = gate.commit(version);
    EXPECT_TRUE(applied);
    return applied.value_or(firewall::Gate::Applied{});
  }
  // A connection of the guest to an address of its choice; by default the origin's.
  void connect(std::optional<Endpoint> destination = {}) {
    TcpPair pair = tcp_pair();
    guest = std::move(pair.near);
    ASSERT_TRUE(gate.take_connection());
    tasks.spawn(firewall::TcpSession::serve(std::make_unique<firewall::TcpSession>(
        room, std::move(pair.far), destination.value_or(origin_listener.endpoint))));
  }
  // The firewall's connection to the origin, if there is one.
  bool origin_reached() {
    return until([&] {
      upstream = accept_now(origin_listener);
      return static_cast<bool>(upstream);
    });
  }
  // After the session ended: nobody ever came to the origin.
  bool origin_untouched() { return !accept_now(origin_listener); }
  bool ended(std::size_t lines_wanted = 1) {
    return until([&] { return egress.lines().size() >= lines_wanted; });
  }
  boost::json::object line() {
    EXPECT_TRUE(ended());
    const auto lines = egress.lines();
    return lines.empty() ? boost::json::object() : lines.back();
  }

  static std::string hello(std::string_view name) { return record(Hello().sni(name).message()); }
  static std::string alert(int description) {
    return std::string("\x15\x03\x03\x00\x02\x02", 6) + static_cast<char>(description);
  }

  EgressLines egress;
  firewall::Gate gate{io};
  NamesToAddresses resolver{io};
  net::RelayRoom relays{reactor, gate.buffered, {}};
  firewall::SessionRoom room{reactor, gate, egress.audit, resolver, relays, {}, {}};
  std::uint64_t version = 0;
  LoopbackListener origin_listener = listen_loopback(64, "198.18.0.1");
  Fd guest, upstream;
  net::TaskGroup tasks{fail_on_exception};
};

inline constexpr int kAccessDenied = 49, kInternalError = 80;

}  // namespace sallyport::test
