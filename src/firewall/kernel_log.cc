// SPDX-License-Identifier: Apache-2.0
// The two sockets are read until they are empty whenever one becomes readable. A full socket
// (ENOBUFS: the kernel dropped messages) is told in one line, because a gap in the log must be
// visible. Everything refused here was refused already: losing a message loses a line, never a
// decision.
#include "firewall/kernel_log.h"

#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <cerrno>
#include <string>
#include <utility>
#include <vector>

#include "firewall/conntrack_message.h"
#include "firewall/control.h"
#include "firewall/nflog_message.h"
#include "firewall/repeated_lines.h"

namespace sallyport::firewall {

namespace asio = boost::asio;

namespace {

constexpr auto kWait = asio::as_tuple(asio::use_awaitable);
constexpr std::size_t kBuffer =
    65536;                   // NFLOG sends batches of up to one page times its queue threshold
constexpr int kRounds = 32;  // datagrams before others get their turn

std::string_view protocol_name(std::uint8_t protocol) {
  switch (protocol) {
    case IPPROTO_TCP:
      return "tcp";
    case IPPROTO_UDP:
      return "udp";
    case IPPROTO_ICMP:
    case IPPROTO_ICMPV6:
      return "icmp";
    default:
      return "other";
  }
}

std::string protocol_detail(std::uint8_t protocol) {
  return protocol_name(protocol) == "other" ? fmt::format("IP protocol {}", protocol)
                                            : std::string();
}

}  // namespace

class KernelLog::State : public std::enable_shared_from_this<State> {
 public:
  State(asio::any_io_executor executor, Fd nflog, Fd conntrack, Gate& gate, Audit& audit,
        Options options)
      : gate_(gate),
        audit_(audit),
        lines_(executor, audit, options.repeat_window),
        executor_(executor) {
    if (nflog) nflog_ = std::make_shared<asio::posix::stream_descriptor>(executor, nflog.release());
    if (conntrack)
      conntrack_ = std::make_shared<asio::posix::stream_descriptor>(executor, conntrack.release());
  }

  void start() {
    if (nflog_) asio::co_spawn(executor_, serve(nflog_, &State::refused), asio::detached);
    if (conntrack_) asio::co_spawn(executor_, serve(conntrack_, &State::ended), asio::detached);
  }

  void drain() {
    if (stopped_) return;
    if (nflog_) read(nflog_->native_handle(), &State::refused);
    if (conntrack_) read(conntrack_->native_handle(), &State::ended);
  }

  void stop() {
    drain();
    if (std::exchange(stopped_, true)) return;
    lines_.flush();
    boost::system::error_code ignored;
    if (nflog_) nflog_->close(ignored);
    if (conntrack_) conntrack_->close(ignored);
  }

 private:
  using Socket = std::shared_ptr<asio::posix::stream_descriptor>;
  using Handler = void (State::*)(Bytes datagram);

  asio::awaitable<void> serve(Socket socket, Handler handler) {
    const auto self = shared_from_this();
    while (!stopped_) {
      const auto [error] =
          co_await socket->async_wait(asio::posix::descriptor_base::wait_read, kWait);
      if (error || stopped_) break;
      read(socket->native_handle(), handler);
    }
  }

  void read(int fd, Handler handler) {
    buffer_.resize(kBuffer);
    for (int round = 0; round < kRounds; ++round) {
      const ssize_t count = ::recv(fd, buffer_.data(), buffer_.size(), MSG_DONTWAIT);
      if (count > 0) {
        (this->*handler)(Bytes(buffer_.data(), static_cast<std::size_t>(count)));
      } else if (count < 0 && errno == ENOBUFS) {
        lost();
      } else if (count == 0 || errno != EINTR) {
        break;
      }
    }
    buffer_ = {};  // quiet sandboxes do not pay for it
  }

  void lost();
  void refused(Bytes datagram);
  void ended(Bytes datagram);

  Gate& gate_;
  Audit& audit_;
  RepeatedLines lines_;
  asio::any_io_executor executor_;
  Socket nflog_, conntrack_;
  std::vector<std::uint8_t> buffer_;
  bool stopped_ = false;
};

void KernelLog::State::lost() {
  static const std::string kKey = "lost";
  AuditRecord record;
  record.policy_version = gate_.version();
  record.reason = "records_lost";
  record.via = "kernel";
  record.detail = "the kernel reported more than could be read; what it refused stays refused";
  if (!lines_.repeat(kKey)) lines_.write(kKey, record);
}

void KernelLog::State::refused(Bytes datagram) {
  const NflogBatch batch = parse_nflog(datagram);
  if (batch.overrun) lost();
  for (const RefusedPacket& packet : batch.packets) {
    ++gate_.counters.denied;
    // Source ports differ from try to try: what was tried is the same.
    const std::string key =
        fmt::format("{} {} {} {}", packet.reason, packet.protocol,
                    packet.source.address.to_string(), packet.destination.to_string());
    if (lines_.repeat(key)) continue;
    AuditRecord record;
    record.policy_version = gate_.version();
    record.protocol = protocol_name(packet.protocol);
    record.destination = packet.destination;
    record.verdict = policy::Access::deny;
    record.reason = packet.reason;
    record.entry =
        policy::decide_address(gate_.policy(), gate_.boundary(), packet.destination.address).entry;
    record.via = "kernel";
    record.detail = protocol_detail(packet.protocol);
    lines_.write(key, record);
  }
}

void KernelLog::State::ended(Bytes datagram) {
  const ConntrackBatch batch = parse_conntrack(datagram);
  for (const EndedFlow& flow : batch.flows) {
    if (flow.mark != control::kForwardedMark) continue;
    ++gate_.counters.allowed;
    gate_.counters.bytes_up += flow.bytes_up;
    gate_.counters.bytes_down += flow.bytes_down;
    const auto decision =
        policy::decide_address(gate_.policy(), gate_.boundary(), flow.destination.address);
    const bool still = decision.access == policy::Access::allow;
    AuditRecord record;
    record.policy_version = gate_.version();
    record.protocol = protocol_name(flow.protocol);
    record.destination = flow.destination;
    record.dialled = flow.destination;
    record.verdict = policy::Access::allow;
    // It passed, so it was allowed when it began; the policy in force now may say otherwise.
    record.reason = still ? policy::to_string(decision.reason) : std::string_view("policy_changed");
    record.entry = decision.entry;
    record.bytes_up = flow.bytes_up;
    record.bytes_down = flow.bytes_down;
    if (flow.start_ns && flow.stop_ns && *flow.stop_ns > *flow.start_ns)
      record.duration = std::chrono::milliseconds((*flow.stop_ns - *flow.start_ns) / 1'000'000);
    record.via = "kernel";
    record.detail = protocol_detail(flow.protocol);
    audit_.write(record);
  }
}

KernelLog::KernelLog(asio::any_io_executor executor, Fd nflog, Fd conntrack, Gate& gate,
                     Audit& audit, Options options)
    : state_(std::make_shared<State>(std::move(executor), std::move(nflog), std::move(conntrack),
                                     gate, audit, options)) {}
KernelLog::KernelLog(asio::any_io_executor executor, Fd nflog, Fd conntrack, Gate& gate,
                     Audit& audit)
    : KernelLog(std::move(executor), std::move(nflog), std::move(conntrack), gate, audit,
                Options{}) {}
KernelLog::~KernelLog() { stop(); }

void KernelLog::start() { state_->start(); }
void KernelLog::stop() { state_->stop(); }
void KernelLog::drain() { state_->drain(); }

}  // namespace sallyport::firewall
