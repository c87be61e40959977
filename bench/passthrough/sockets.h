// SPDX-License-Identifier: Apache-2.0
// The few socket calls of the bench. A bench that cannot go on says so and exits.
#pragma once

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "base/address.h"

namespace sallyport::bench {

using Clock = std::chrono::steady_clock;

[[noreturn]] inline void die(const char* what) {
  std::perror(what);
  std::exit(1);
}

inline Endpoint endpoint(std::string_view text) {
  const auto parsed = Endpoint::parse(text);
  if (!parsed) {
    std::fprintf(stderr, "not an address and port: %.*s\n", static_cast<int>(text.size()),
                 text.data());
    std::exit(2);
  }
  return *parsed;
}

inline int listen_on(const Endpoint& at) {
  sockaddr_storage address{};
  const socklen_t length = at.to_sockaddr(address);
  const int fd = ::socket(address.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  const int on = 1;
  ::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  if (::bind(fd, reinterpret_cast<sockaddr*>(&address), length) != 0) die("bind");
  if (::listen(fd, 4096) != 0) die("listen");
  return fd;
}

inline int connect_to(const Endpoint& to, bool blocking) {
  sockaddr_storage address{};
  const socklen_t length = to.to_sockaddr(address);
  const int fd =
      ::socket(address.ss_family, SOCK_STREAM | SOCK_CLOEXEC | (blocking ? 0 : SOCK_NONBLOCK), 0);
  const int on = 1;
  ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  if (::connect(fd, reinterpret_cast<sockaddr*>(&address), length) != 0 && errno != EINPROGRESS)
    die("connect");
  return fd;
}

inline void watch(int epoll, int fd, std::uint32_t events) {
  epoll_event event{.events = events, .data = {.fd = fd}};
  if (::epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) != 0) die("epoll_ctl");
}

}  // namespace sallyport::bench
