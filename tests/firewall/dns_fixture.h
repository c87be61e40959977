// SPDX-License-Identifier: Apache-2.0
// A DNS service on loopback sockets with a resolver that answers from a table, and verbs to ask it.
#pragma once

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <map>
#include <memory>
#include <string>

#include "dns/message.h"
#include "firewall/dns_service.h"
#include "firewall/egress_lines.h"
#include "policy/policy_json.h"
#include "support/dns_authority.h"

namespace sallyport::test {

// Answers at once, or when told to. Counts what it was asked.
class TableResolver final : public Resolver {
 public:
  explicit TableResolver(boost::asio::io_context& io)
      : release_(io, std::chrono::steady_clock::time_point::max()) {}

  boost::asio::awaitable<Result<Resolution>> resolve(std::string, bool, bool) override {
    ADD_FAILURE() << "the DNS service asks for whole answers";
    co_return fail(Code::internal, "not expected");
  }
  boost::asio::awaitable<Result<std::vector<std::uint8_t>>> query(std::string name,
                                                                  std::uint16_t type) override {
    ++asked[name];
    while (holding) {
      co_await release_.async_wait(boost::asio::as_tuple(boost::asio::use_awaitable));
    }
    if (name == "silent.example") co_return fail(Code::timed_out, "no answer in time");
    const auto found = table.find({name, type});
    const DnsReply reply = found != table.end() ? found->second : no_data("example");
    const std::string message = answer_message(name, type, reply);
    co_return std::vector<std::uint8_t>(message.begin(), message.end());
  }
  void release() {
    holding = false;
    release_.cancel();
  }

  std::map<std::pair<std::string, std::uint16_t>, DnsReply> table;
  std::map<std::string, unsigned> asked;
  bool holding = false;

 private:
  boost::asio::steady_timer release_;
};

// What a client makes of an answer.
struct Seen {
  std::string bytes;
  [[nodiscard]] bool came() const { return bytes.size() >= 12; }
  [[nodiscard]] unsigned id() const { return number(0); }
  [[nodiscard]] unsigned rcode() const { return came() ? number(2) & 0xfU : 99; }
  [[nodiscard]] bool cut() const { return came() && (number(2) & 0x200U) != 0; }
  [[nodiscard]] unsigned answers() const { return came() ? number(6) : 0; }
  [[nodiscard]] unsigned authority() const { return came() ? number(8) : 0; }
  [[nodiscard]] unsigned number(std::size_t at) const {
    return (static_cast<unsigned>(static_cast<unsigned char>(bytes[at])) << 8) |
           static_cast<unsigned char>(bytes[at + 1]);
  }
};

class DnsServiceFixture : public testing::Test {
 protected:
  using Options = firewall::DnsService::Options;

  ~DnsServiceFixture() override {
    if (service_) service_->stop();
    io_.restart();
    io_.poll();
  }
  void start(Options options = {}, const char* address = "127.0.0.1") {
    firewall::DnsService::Sockets sockets;
    sockets.udp4 = listener(SOCK_DGRAM, address, udp_);
    sockets.tcp4 = listener(SOCK_STREAM, address, tcp_);
    service_ = std::make_unique<firewall::DnsService>(io_.get_executor(), std::move(sockets),
                                                      resolver_, gate_, log_.audit, options);
    service_->start();
  }
  void set_policy(std::string_view text) {
    prepare(text);
    commit();
  }
  void prepare(std::string_view text) {
    auto policy = policy::parse_policy(text);
    ASSERT_TRUE(policy) << policy.error().message;
    gate_.prepare(++version_, *policy);
  }
  firewall::Gate::Applied commit() {
    const auto applied = gate_.commit(version_);
    EXPECT_TRUE(applied);
    return applied ? *applied : firewall::Gate::Applied{};
  }

  static std::string question(std::string_view name, std::uint16_t type,
                              std::optional<unsigned> edns = {}, std::uint16_t id = 7) {
    std::optional<dns::Edns> opt;
    if (edns) opt = dns::Edns{static_cast<std::uint16_t>(*edns), false};
    return dns::render_query(id, name, type, opt).value();
  }
  Fd udp_client() { return client(SOCK_DGRAM, udp_); }
  Fd tcp_client() { return client(SOCK_STREAM, tcp_); }
  static void send(const Fd& fd, std::string_view bytes) {
    ASSERT_EQ(::send(fd.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(bytes.size()));
  }
  static std::string framed(std::string_view message) {
    std::string out{static_cast<char>(message.size() >> 8),
                    static_cast<char>(message.size() & 0xff)};
    return out.append(message);
  }
  // Runs the service until something can be read (or the stream ended).
  void await_readable(const Fd& fd) {
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    for (pollfd poll{fd.get(), POLLIN, 0}; ::poll(&poll, 1, 0) == 0;) {
      ASSERT_LT(std::chrono::steady_clock::now(), limit) << "nothing came";
      io_.restart();
      io_.run_one_for(std::chrono::milliseconds(50));
    }
  }
  Seen receive(const Fd& fd) {
    await_readable(fd);
    std::string bytes(65536, '\0');
    const ssize_t count = ::recv(fd.get(), bytes.data(), bytes.size(), MSG_DONTWAIT);
    bytes.resize(count > 0 ? static_cast<std::size_t>(count) : 0);
    return {bytes};
  }
  Seen receive_framed(const Fd& fd) {
    std::string bytes;
    while (bytes.size() < 2 || bytes.size() < 2 + Seen{bytes}.number(0)) {
      await_readable(fd);
      const std::size_t want =
          bytes.size() < 2 ? 2 - bytes.size() : 2 + Seen{bytes}.number(0) - bytes.size();
      std::string more(want, '\0');
      const ssize_t count = ::recv(fd.get(), more.data(), more.size(), MSG_DONTWAIT);
      if (count <= 0) return {};
      bytes += more.substr(0, static_cast<std::size_t>(count));
    }
    return {bytes.substr(2)};
  }
  // True once the service ended the stream, by FIN or RST.
  bool ended(const Fd& fd) {
    await_readable(fd);
    char byte;
    return ::recv(fd.get(), &byte, 1, MSG_DONTWAIT) <= 0;
  }
  Seen ask(std::string_view name, std::uint16_t type = dns::kA, std::optional<unsigned> edns = {}) {
    const Fd fd = udp_client();
    send(fd, question(name, type, edns));
    return receive(fd);
  }
  Seen ask_tcp(std::string_view name, std::uint16_t type = dns::kA) {
    const Fd fd = tcp_client();
    send(fd, framed(question(name, type)));
    return receive_framed(fd);
  }
  void poll() {
    io_.restart();
    io_.poll();
  }
  std::vector<boost::json::object> lines() { return log_.lines(); }

  boost::asio::io_context io_;
  firewall::Gate gate_{io_};
  EgressLines log_;
  TableResolver resolver_{io_};
  std::unique_ptr<firewall::DnsService> service_;
  std::uint64_t version_ = 0;
  Endpoint udp_, tcp_;

 private:
  static Fd client(int type, Endpoint to) {
    sockaddr_storage storage{};
    const socklen_t length = to.to_sockaddr(storage);
    Fd fd(::socket(storage.ss_family, type | SOCK_CLOEXEC, 0));
    EXPECT_EQ(::connect(fd.get(), reinterpret_cast<sockaddr*>(&storage), length), 0);
    return fd;
  }
  static Fd listener(int type, const char* address, Endpoint& out) {
    sockaddr_storage storage{};
    socklen_t length = Endpoint{*Address::parse(address), 0}.to_sockaddr(storage);
    Fd fd(::socket(storage.ss_family, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    EXPECT_EQ(::bind(fd.get(), reinterpret_cast<sockaddr*>(&storage), length), 0);
    if (type == SOCK_STREAM) EXPECT_EQ(::listen(fd.get(), 128), 0);
    length = sizeof storage;
    EXPECT_EQ(::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&storage), &length), 0);
    out = *Endpoint::from_sockaddr(reinterpret_cast<sockaddr*>(&storage), length);
    return fd;
  }
};

}  // namespace sallyport::test
