// SPDX-License-Identifier: Apache-2.0
// System calls: accept4, getsockname, setsockopt, epoll_ctl.
#include "net/listener.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "base/log.h"

namespace sallyport::net {

namespace {

constexpr int kAcceptsInARow = 64;
constexpr std::chrono::milliseconds kBackoff{100};
constexpr std::chrono::seconds kComplainEvery{10};
constexpr int kDeferSeconds = 3;

std::optional<Endpoint> local_address(int fd) {
  sockaddr_storage address{};
  socklen_t length = sizeof address;
  if (::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &length) != 0) return std::nullopt;
  return Endpoint::from_sockaddr(reinterpret_cast<const sockaddr*>(&address), length);
}

bool is_exhaustion(int error) {
  return error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM;
}

}  // namespace

Listener::Listener(Reactor& reactor, Fd listener, OnAccept on_accept)
    : bell_(reactor),
      backoff_(bell_),
      socket_(std::move(listener)),
      on_accept_(std::move(on_accept)) {
  ::fcntl(socket_.fd(), F_SETFL, ::fcntl(socket_.fd(), F_GETFL) | O_NONBLOCK);
  address_ = local_address(socket_.fd());
}

void Listener::announce_with_data(bool on) {
  const int seconds = on ? kDeferSeconds : 0;
  ::setsockopt(socket_.fd(), IPPROTO_TCP, TCP_DEFER_ACCEPT, &seconds, sizeof seconds);
  // An acknowledgement of the hello alone would be a packet of its own; it goes with the first
  // bytes back. Inherited.
  const int quick = on ? 0 : 1;
  ::setsockopt(socket_.fd(), IPPROTO_TCP, TCP_QUICKACK, &quick, sizeof quick);
}

Task<> Listener::run() {
  // Level-triggered: what a turn leaves is reported again.
  if (!socket_.watch(bell_, EPOLLIN)) co_return;
  while (true) {
    int left = kAcceptsInARow;
    while (left > 0 && !exhausted_ && accept_one()) --left;
    if (exhausted_) {
      backoff_.start(kBackoff);
      // The level-triggered listener would ring on every turn; each ring finds the timer still
      // running.
      socket_.pause(bell_.reactor());
      while (!backoff_.expired()) co_await bell_.wait();
      socket_.resume(bell_.reactor(), EPOLLIN);
      exhausted_ = false;
      continue;
    }
    if (left == 0)
      co_await bell_.yield();
    else
      co_await bell_.wait();
  }
}

bool Listener::accept_one() {
  Fd connection(::accept4(socket_.fd(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
  if (connection) {
    const auto local = local_address(connection.get());
    if (local) on_accept_(std::move(connection), *local);
    return true;
  }
  if (errno == EAGAIN || errno == EWOULDBLOCK) return false;
  if (!is_exhaustion(errno)) return true;  // that connection went away before it was accepted
  exhausted_ = true;
  const Clock::time_point now = Clock::now();
  if (now - complained_ > kComplainEvery) {
    complained_ = now;
    log::warn("cannot accept connections", {{"error", std::strerror(errno)}});
  }
  return false;
}

}  // namespace sallyport::net
