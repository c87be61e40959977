// SPDX-License-Identifier: Apache-2.0
// One DNS-over-TCP connection of the sandbox (RFC 7766): length-framed questions, pipelined,
// answered in the order in which answers come. While open it is a flow of the gate, so that a
// policy that lets no name be looked up cuts it (R-094, D-15).
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <memory>
#include <string>

#include "base/fd.h"
#include "firewall/dns_questions.h"
#include "firewall/dns_service.h"
#include "firewall/gate.h"

namespace sallyport::firewall {

class DnsStream final : public std::enable_shared_from_this<DnsStream> {
 public:
  static constexpr std::size_t kMaxQuery = 4096;  // longer questions do not exist outside attacks
  static constexpr std::size_t kMaxQueued =
      65536;  // reading stops while more than this waits to be written

  // The caller has taken a connection at the gate for it.
  DnsStream(boost::asio::any_io_executor executor, Fd socket,
            std::shared_ptr<DnsQuestions> questions, Gate& gate, DnsService::Options options);
  ~DnsStream() { close(); }

  boost::asio::awaitable<void> run();
  void close();  // gives the gate's connection back at once, though lookups may still be out

 private:
  // Our place in the gate's registry, from accept to close.
  class Registered final : public Gate::Flow {
   public:
    Registered(Gate& gate, DnsStream& stream) : Flow(gate), gate_(gate), stream_(stream) {}
    ~Registered() override { gate_.give_connection(); }
    [[nodiscard]] std::optional<policy::Decision> judge(
        const policy::Policy& policy, const policy::Boundary& boundary) const override;
    void cut(const policy::Decision& why) override;
    void end() override { stream_.close(); }  // destroys this object

   private:
    Gate& gate_;
    DnsStream& stream_;
  };

  using Clock = std::chrono::steady_clock;
  static constexpr Clock::time_point kNever = Clock::time_point::max();

  boost::asio::awaitable<bool> fill();   // false: end of the stream, a deadline, or closed
  boost::asio::awaitable<void> take();   // every whole question in the buffer
  boost::asio::awaitable<void> room();   // until another lookup or reply fits
  boost::asio::awaitable<void> watch();  // closes when a deadline passes
  boost::asio::awaitable<void> answer(dns::Query query);
  void reply(std::string_view message);
  void flush();
  void expect_question();
  void wake() { changed_.cancel(); }
  [[nodiscard]] DnsQuestions::Origin origin() const;
  [[nodiscard]] std::optional<Endpoint> original_destination() const;

  boost::asio::posix::stream_descriptor socket_;
  std::shared_ptr<DnsQuestions> questions_;
  Gate& gate_;
  std::unique_ptr<Registered> registered_;
  DnsService::Options options_;
  boost::asio::steady_timer
      changed_;  // cancelled when a lookup ended, replies were written, or on close
  boost::asio::steady_timer watchdog_;  // cancelled when a deadline moved
  Clock::time_point born_, read_by_, write_by_ = kNever;
  std::string in_, out_;
  std::size_t looking_up_ = 0;
  bool writing_ = false;
  bool closed_ = false;
};

}  // namespace sallyport::firewall
