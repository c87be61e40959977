// SPDX-License-Identifier: Apache-2.0
// Theory of operation. A UDP socket is read in batches (recvmmsg), and what can be answered at once
// is answered in one batch (sendmmsg): a denied name costs a parse, a policy lookup and a share of
// two system calls. A question that must be looked up gets a coroutine of its own; how many there
// are is capped, and beyond the cap the answer is SERVFAIL, because silence would make the
// client wait. While an update is prepared nothing is read: questions wait in the kernel. The
// sockets are bound to the gateway address and the redirect is undone by conntrack, so a plain send
// leaves with the address that the guest asked.
//
// Everything that is spawned holds State, and State stops it by closing the sockets.
#include "firewall/dns_service.h"

#include <sys/socket.h>

#include <array>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <cerrno>
#include <optional>
#include <utility>
#include <vector>

#include "dns/message.h"
#include "firewall/dns_questions.h"
#include "firewall/dns_stream.h"

namespace sallyport::firewall {

namespace asio = boost::asio;
using Descriptor = asio::posix::stream_descriptor;

namespace {

constexpr auto kWait = asio::as_tuple(asio::use_awaitable);
constexpr std::size_t kBatch = 16;
constexpr int kRounds = 8;                                // batches before others get their turn
constexpr std::chrono::milliseconds kAcceptBackoff{100};  // without descriptors

struct Peer {
  sockaddr_storage address{};
  socklen_t length = 0;
};

// One batch of datagrams and the replies to them.
class Batch {
 public:
  static constexpr std::size_t kMaxQuery = 2048;  // a longer datagram is no question

  Batch() {
    for (std::size_t i = 0; i < kBatch; ++i) {
      in_[i] = {buffers_[i].data(), kMaxQuery};
      received_[i].msg_hdr.msg_iov = &in_[i];
      received_[i].msg_hdr.msg_iovlen = 1;
    }
  }

  // How many came; 0 when none are left.
  std::size_t receive(int fd) {
    for (std::size_t i = 0; i < kBatch; ++i) {
      received_[i].msg_hdr.msg_name = &peers_[i].address;
      received_[i].msg_hdr.msg_namelen = sizeof peers_[i].address;
    }
    const int count = ::recvmmsg(fd, received_.data(), kBatch, MSG_DONTWAIT, nullptr);
    if (count <= 0) return 0;
    for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i)
      peers_[i].length = received_[i].msg_hdr.msg_namelen;
    return static_cast<std::size_t>(count);
  }
  [[nodiscard]] Bytes message(std::size_t i) const {
    if ((received_[i].msg_hdr.msg_flags & MSG_TRUNC) != 0) return {};
    return {buffers_[i].data(), received_[i].msg_len};
  }
  [[nodiscard]] const Peer& peer(std::size_t i) const { return peers_[i]; }

  void reply(std::size_t i, std::string text) {
    replies_[count_] = std::move(text);
    out_[count_] = {replies_[count_].data(), replies_[count_].size()};
    msghdr& header = sent_[count_].msg_hdr;
    header = {};
    header.msg_name = &peers_[i].address;
    header.msg_namelen = peers_[i].length;
    header.msg_iov = &out_[count_];
    header.msg_iovlen = 1;
    ++count_;
  }
  // A reply that does not fit into the socket buffer is lost, as UDP may; the client asks again.
  void send(int fd) {
    std::size_t done = 0;
    while (done < count_) {
      const int sent =
          ::sendmmsg(fd, &sent_[done], static_cast<unsigned>(count_ - done), MSG_DONTWAIT);
      done += sent > 0 ? static_cast<std::size_t>(sent) : 1;
    }
    count_ = 0;
  }

 private:
  std::array<std::array<std::uint8_t, kMaxQuery>, kBatch> buffers_;
  std::array<Peer, kBatch> peers_;
  std::array<iovec, kBatch> in_{}, out_{};
  std::array<mmsghdr, kBatch> received_{}, sent_{};
  std::array<std::string, kBatch> replies_;
  std::size_t count_ = 0;
};

}  // namespace

class DnsService::State : public std::enable_shared_from_this<State> {
 public:
  State(asio::any_io_executor executor, Sockets sockets, Resolver& resolver, Gate& gate,
        Audit& audit, Options options)
      : executor_(std::move(executor)),
        gate_(gate),
        options_(options),
        questions_(std::make_shared<DnsQuestions>(executor_, resolver, gate, audit,
                                                  options.max_in_flight, options.repeat_window)) {
    adopt(udp_, std::move(sockets.udp4));
    adopt(udp_, std::move(sockets.udp6));
    adopt(tcp_, std::move(sockets.tcp4));
    adopt(tcp_, std::move(sockets.tcp6));
  }

  void start() {
    for (const auto& socket : udp_) asio::co_spawn(executor_, serve_udp(socket), asio::detached);
    for (const auto& socket : tcp_) asio::co_spawn(executor_, serve_tcp(socket), asio::detached);
  }
  void stop();
  [[nodiscard]] Stats stats() const;

 private:
  using Socket = std::shared_ptr<Descriptor>;

  void adopt(std::vector<Socket>& into, Fd fd) {
    if (fd) into.push_back(std::make_shared<Descriptor>(executor_, fd.release()));
  }
  asio::awaitable<void> serve_udp(Socket socket);
  asio::awaitable<void> answer_udp(Socket socket, Peer peer, dns::Query query);
  bool serve_batch(const Socket& socket, Batch& batch, bool refuse);  // false: nothing was waiting
  asio::awaitable<void> serve_tcp(Socket socket);
  asio::awaitable<void> serve_stream(std::shared_ptr<DnsStream> stream);
  bool accept_one(int listener);  // false: nothing is waiting, or no descriptor is left

  asio::any_io_executor executor_;
  Gate& gate_;
  Options options_;
  std::shared_ptr<DnsQuestions> questions_;
  std::vector<Socket> udp_, tcp_;
  std::vector<std::weak_ptr<DnsStream>> streams_;
  Stats stats_;
  bool stopped_ = false;
};

asio::awaitable<void> DnsService::State::serve_udp(Socket socket) {
  const auto self = shared_from_this();
  const auto batch = std::make_unique<Batch>();
  while (!stopped_) {
    const auto [error] =
        co_await socket->async_wait(asio::posix::descriptor_base::wait_read, kWait);
    if (error || stopped_) break;
    const bool refuse = gate_.held() && !co_await gate_.ready();
    for (int round = 0; round < kRounds && !stopped_; ++round) {
      if (!serve_batch(socket, *batch, refuse)) break;
    }
  }
}

bool DnsService::State::serve_batch(const Socket& socket, Batch& batch, bool refuse) {
  const int fd = socket->native_handle();
  const std::size_t count = batch.receive(fd);
  const DnsQuestions::Origin origin;
  for (std::size_t i = 0; i < count; ++i) {
    ++questions_->udp_queries;
    if (batch.message(i).empty() || refuse) continue;
    auto received = questions_->receive(batch.message(i), origin);
    if (received.lookup)
      asio::co_spawn(executor_, answer_udp(socket, batch.peer(i), std::move(*received.lookup)),
                     asio::detached);
    else if (!received.reply.empty())
      batch.reply(i, std::move(received.reply));
  }
  batch.send(fd);
  return count == kBatch;
}

asio::awaitable<void> DnsService::State::answer_udp(Socket socket, Peer peer, dns::Query query) {
  const auto self = shared_from_this();
  const std::size_t limit = query.udp_limit();
  const std::string reply = co_await questions_->look_up(std::move(query), {}, limit);
  if (stopped_) co_return;
  ::sendto(socket->native_handle(), reply.data(), reply.size(), MSG_DONTWAIT | MSG_NOSIGNAL,
           reinterpret_cast<const sockaddr*>(&peer.address), peer.length);
}

asio::awaitable<void> DnsService::State::serve_tcp(Socket socket) {
  const auto self = shared_from_this();
  asio::steady_timer pause(executor_);
  while (!stopped_) {
    const auto [error] =
        co_await socket->async_wait(asio::posix::descriptor_base::wait_read, kWait);
    if (error || stopped_) break;
    errno = 0;
    for (int round = 0; round < kRounds; ++round) {
      if (!accept_one(socket->native_handle())) break;
    }
    if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS) {
      pause.expires_after(kAcceptBackoff);
      co_await pause.async_wait(kWait);
    }
  }
}

bool DnsService::State::accept_one(int listener) {
  Fd socket(::accept4(listener, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
  if (!socket) return false;
  if (stats_.connections >= options_.max_connections || !gate_.take_connection()) {
    ++stats_.overloaded;
    return true;  // closed at once: the client tries again or another way
  }
  auto stream =
      std::make_shared<DnsStream>(executor_, std::move(socket), questions_, gate_, options_);
  ++stats_.connections;
  std::erase_if(streams_, [](const auto& each) { return each.expired(); });
  streams_.push_back(stream);
  asio::co_spawn(executor_, serve_stream(std::move(stream)), asio::detached);
  return true;
}

asio::awaitable<void> DnsService::State::serve_stream(std::shared_ptr<DnsStream> stream) {
  const auto self = shared_from_this();
  co_await stream->run();
  --stats_.connections;
}

void DnsService::State::stop() {
  if (std::exchange(stopped_, true)) return;
  boost::system::error_code ignored;
  for (const auto& socket : udp_) socket->close(ignored);
  for (const auto& socket : tcp_) socket->close(ignored);
  for (const auto& each : streams_) {
    if (const auto stream = each.lock()) stream->close();
  }
  questions_->stop();
}

DnsService::Stats DnsService::State::stats() const {
  Stats stats = stats_;
  stats.udp_queries = questions_->udp_queries;
  stats.tcp_queries = questions_->tcp_queries;
  stats.denied = questions_->denied;
  stats.overloaded += questions_->overloaded;
  stats.in_flight = questions_->in_flight;
  return stats;
}

DnsService::DnsService(asio::any_io_executor executor, Sockets sockets, Resolver& resolver,
                       Gate& gate, Audit& audit, Options options)
    : state_(std::make_shared<State>(std::move(executor), std::move(sockets), resolver, gate, audit,
                                     options)) {}
DnsService::DnsService(asio::any_io_executor executor, Sockets sockets, Resolver& resolver,
                       Gate& gate, Audit& audit)
    : DnsService(std::move(executor), std::move(sockets), resolver, gate, audit, Options{}) {}
DnsService::~DnsService() { stop(); }

void DnsService::start() { state_->start(); }
void DnsService::stop() { state_->stop(); }
DnsService::Stats DnsService::stats() const { return state_->stats(); }

}  // namespace sallyport::firewall
