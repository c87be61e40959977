// SPDX-License-Identifier: Apache-2.0
// System calls: socket, setsockopt, connect, epoll_ctl, close; getsockopt only for an attempt that
// failed.
#include "net/dial.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <utility>

namespace sallyport::net {

namespace {

struct Attempt {
  std::unique_ptr<Socket> socket;
  Endpoint endpoint;
};

std::unexpected<Error> failed(const Endpoint& endpoint, int error) {
  return fail_errno("connect to " + endpoint.to_string(), error);
}

Result<Attempt> begin(Bell& bell, const Endpoint& endpoint, bool speaks_first) {
  sockaddr_storage address{};
  const socklen_t length = endpoint.to_sockaddr(address);
  Fd fd(::socket(address.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd) return fail_errno("socket");
  if (speaks_first) {
    // On a connecting socket this does one thing: the last acknowledgement of the handshake waits
    // for our bytes. (Turning TCP_QUICKACK off does it too, but then every later acknowledgement is
    // late, and a server that writes twice waits 40 ms for us: seen with TLS session tickets.)
    const int seconds = 1;
    ::setsockopt(fd.get(), IPPROTO_TCP, TCP_DEFER_ACCEPT, &seconds, sizeof seconds);
  }
  if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), length) != 0 &&
      errno != EINPROGRESS)
    return failed(endpoint, errno);
  Attempt attempt{std::make_unique<Socket>(std::move(fd)), endpoint};
  attempt.socket->expect_events();
  if (!attempt.socket->watch(bell, Socket::kReading | EPOLLOUT)) return fail_errno("epoll_ctl");
  return attempt;
}

int error_of(const Socket& socket) {
  int error = 0;
  socklen_t length = sizeof error;
  if (::getsockopt(socket.fd(), SOL_SOCKET, SO_ERROR, &error, &length) != 0) return errno;
  return error != 0 ? error : ECONNRESET;  // connected and gone again
}

}  // namespace

Task<Result<Dialled>> dial(Bell& bell, std::vector<Endpoint> endpoints, DialOptions options) {
  if (endpoints.size() > options.max_attempts) endpoints.resize(options.max_attempts);
  if (endpoints.empty()) co_return fail(Code::not_found, "no address to connect to");
  Error last{Code::unavailable, {}};
  std::vector<Attempt> running;
  std::size_t next = 0;
  const Clock::time_point deadline = Clock::now() + options.deadline;
  Timer timer(bell);

  while (true) {
    if (bell.cancelled()) co_return fail(Code::denied, "cut by a new policy");
    // One that stands is the answer; one that failed makes room for the next at once.
    for (auto attempt = running.begin(); attempt != running.end();) {
      Socket& socket = *attempt->socket;
      if (!socket.writable()) {
        ++attempt;
      } else if (socket.failed()) {  // refused, unreachable, or accepted and reset at once
        last = failed(attempt->endpoint, error_of(socket)).error();
        attempt = running.erase(attempt);
      } else {
        co_return Dialled{std::move(attempt->socket), attempt->endpoint};
      }
    }
    const Clock::time_point now = Clock::now();
    if (now >= deadline)
      co_return fail(Code::timed_out,
                     "connect to " + endpoints.front().to_string() + ": timed out");
    while (next < endpoints.size() && (running.empty() || timer.expired())) {
      auto attempt = begin(bell, endpoints[next++], options.speaks_first);
      if (!attempt) {
        last = std::move(attempt.error());
        continue;
      }
      running.push_back(std::move(*attempt));
      const bool more = next < endpoints.size();
      timer.start(more ? std::min<Clock::duration>(options.head_start, deadline - now)
                       : deadline - now);
      break;
    }
    if (running.empty()) co_return std::unexpected(std::move(last));
    if (timer.expired())
      timer.start(std::max<Clock::duration>(deadline - Clock::now(), Clock::duration::zero()));
    co_await bell.wait();
  }
}

}  // namespace sallyport::net
