// SPDX-License-Identifier: Apache-2.0
// A reader coroutine, one coroutine per lookup, and writing by whoever has something to write.
// Three deadlines: the next question (idle, or from the first byte of its length, R-100), the
// waiting replies, and the connection's life.
#include "firewall/dns_stream.h"

#include <linux/netfilter_ipv4.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <cerrno>
#include <utility>

namespace sallyport::firewall {

namespace asio = boost::asio;

namespace {
constexpr auto kWait = asio::as_tuple(asio::use_awaitable);
constexpr int kIp6tOriginalDst = 80;  // IP6T_SO_ORIGINAL_DST; its header does not compile as C++
}  // namespace

DnsStream::DnsStream(asio::any_io_executor executor, Fd socket,
                     std::shared_ptr<DnsQuestions> questions, Gate& gate,
                     DnsService::Options options)
    : socket_(executor, socket.release()),
      questions_(std::move(questions)),
      gate_(gate),
      registered_(std::make_unique<Registered>(gate, *this)),
      options_(options),
      changed_(executor),
      watchdog_(executor),
      born_(Clock::now()) {
  expect_question();
}

std::optional<policy::Decision> DnsStream::Registered::judge(const policy::Policy& policy,
                                                             const policy::Boundary&) const {
  policy::Decision decision;
  if (policy.denies_everything()) return decision;  // deny, deny_all
  decision.access = policy::Access::allow;
  decision.reason = policy::Reason::dns_open;
  return decision;
}

void DnsStream::Registered::cut(const policy::Decision&) {
  const linger now{1, 0};  // a reset, so that the client does not wait
  ::setsockopt(stream_.socket_.native_handle(), SOL_SOCKET, SO_LINGER, &now, sizeof now);
  stream_.close();  // destroys this object
}

void DnsStream::close() {
  if (std::exchange(closed_, true)) return;
  boost::system::error_code ignored;
  socket_.close(ignored);
  out_.clear();
  changed_.cancel();
  watchdog_.cancel();
  registered_.reset();
}

void DnsStream::expect_question() {
  read_by_ = Clock::now() + (in_.empty() ? options_.idle : options_.message_deadline);
  watchdog_.cancel();
}

asio::awaitable<void> DnsStream::watch() {
  const auto self = shared_from_this();
  while (!closed_) {
    const auto next = std::min({read_by_, write_by_, born_ + options_.lifetime});
    if (Clock::now() >= next) {
      close();
      break;
    }
    watchdog_.expires_at(next);
    co_await watchdog_.async_wait(kWait);
  }
}

asio::awaitable<void> DnsStream::run() {
  const auto self = shared_from_this();
  asio::co_spawn(socket_.get_executor(), watch(), asio::detached);
  while (!closed_) {
    const bool more = co_await fill();
    if (!more) break;
    co_await take();
    flush();
  }
  // The client may have shut down its side only: what it asked is still answered.
  while (!closed_ && (looking_up_ > 0 || !out_.empty())) {
    changed_.expires_at(kNever);
    co_await changed_.async_wait(kWait);
  }
  close();
}

asio::awaitable<bool> DnsStream::fill() {
  char buffer[2048];
  for (;;) {
    const auto [error] =
        co_await socket_.async_wait(asio::posix::descriptor_base::wait_read, kWait);
    if (error || closed_) co_return false;
    const ssize_t count = ::recv(socket_.native_handle(), buffer, sizeof buffer, MSG_DONTWAIT);
    if (count > 0) {
      const bool first = in_.empty();
      in_.append(buffer, static_cast<std::size_t>(count));
      if (first) expect_question();
      co_return true;
    }
    if (count == 0 || (errno != EAGAIN && errno != EINTR)) co_return false;
  }
}

asio::awaitable<void> DnsStream::take() {
  std::size_t used = 0;
  while (!closed_) {
    Reader reader(as_bytes(std::string_view(in_).substr(used)));
    const auto length = reader.u16();
    if (!length) break;
    if (*length == 0 || *length > kMaxQuery) co_return close();
    const auto message = reader.take(*length);
    if (!message) break;
    used += 2U + *length;
    ++questions_->tcp_queries;
    if (gate_.held() && !co_await gate_.ready()) co_return close();
    if (closed_) co_return;
    auto received = questions_->receive(*message, origin());
    if (received.lookup) {
      ++looking_up_;
      asio::co_spawn(socket_.get_executor(), answer(std::move(*received.lookup)), asio::detached);
    } else if (received.reply.empty()) {
      co_return close();  // not DNS at all
    } else {
      reply(received.reply);
    }
    co_await room();
  }
  in_.erase(0, used);
  if (used > 0 && !closed_) expect_question();
}

asio::awaitable<void> DnsStream::room() {
  if (looking_up_ < options_.max_pipelined && out_.size() <= kMaxQueued) co_return;
  flush();
  read_by_ = kNever;  // it is we who do not read; lookups and writes have deadlines of their own
  watchdog_.cancel();
  while (!closed_ && (looking_up_ >= options_.max_pipelined || out_.size() > kMaxQueued)) {
    changed_.expires_at(kNever);
    co_await changed_.async_wait(kWait);
  }
  expect_question();
}

asio::awaitable<void> DnsStream::answer(dns::Query query) {
  const auto self = shared_from_this();
  const std::string message =
      co_await questions_->look_up(std::move(query), origin(), dns::kMaxMessage);
  --looking_up_;
  if (!closed_) {
    reply(message);
    flush();
    if (looking_up_ == 0 && in_.empty()) expect_question();
  }
  wake();
}

void DnsStream::reply(std::string_view message) {
  out_.push_back(static_cast<char>(message.size() >> 8));
  out_.push_back(static_cast<char>(message.size() & 0xff));
  out_.append(message);
}

void DnsStream::flush() {
  if (closed_ || writing_ || out_.empty()) return;
  const ssize_t sent =
      ::send(socket_.native_handle(), out_.data(), out_.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
  if (sent < 0 && errno != EAGAIN && errno != EINTR) return close();
  if (sent > 0) out_.erase(0, static_cast<std::size_t>(sent));
  if (out_.empty()) {
    write_by_ = kNever;
    return wake();
  }
  if (sent > 0 || write_by_ == kNever) write_by_ = Clock::now() + options_.write_deadline;
  watchdog_.cancel();
  writing_ = true;
  socket_.async_wait(asio::posix::descriptor_base::wait_write,
                     [self = shared_from_this()](boost::system::error_code error) {
                       self->writing_ = false;
                       if (error) return self->close();
                       self->flush();
                     });
}

DnsQuestions::Origin DnsStream::origin() const {
  return {"TCP", [self = shared_from_this()] { return self->original_destination(); }};
}

std::optional<Endpoint> DnsStream::original_destination() const {
  if (closed_) return std::nullopt;
  auto& socket = const_cast<asio::posix::stream_descriptor&>(socket_);
  sockaddr_storage storage{};
  socklen_t length = sizeof storage;
  auto* address = reinterpret_cast<sockaddr*>(&storage);
  const int fd = socket.native_handle();
  if (::getsockopt(fd, SOL_IP, SO_ORIGINAL_DST, &storage, &length) != 0) {
    length = sizeof storage;
    if (::getsockopt(fd, SOL_IPV6, kIp6tOriginalDst, &storage, &length) != 0) return std::nullopt;
  }
  return Endpoint::from_sockaddr(address, length);
}

}  // namespace sallyport::firewall
