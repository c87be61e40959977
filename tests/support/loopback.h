// SPDX-License-Identifier: Apache-2.0
// Real TCP connections on loopback and a reactor, all in one thread: a test writes at one end, lets
// the loop run until something is true, and looks at the other end.
#pragma once

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <boost/asio/io_context.hpp>
#include <cerrno>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "base/address.h"
#include "base/check.h"
#include "base/fd.h"
#include "net/reactor.h"
#include "net/task.h"

namespace sallyport::test {

struct LoopbackListener {
  Fd fd;
  Endpoint endpoint;
};

inline LoopbackListener listen_loopback(int backlog = 64, std::string_view address = "127.0.0.1",
                                        std::uint16_t port = 0) {
  LoopbackListener out;
  sockaddr_storage raw{};
  socklen_t length = Endpoint{*Address::parse(address), port}.to_sockaddr(raw);
  out.fd = Fd(::socket(raw.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  CHECK(::bind(out.fd.get(), reinterpret_cast<sockaddr*>(&raw), length) == 0);
  CHECK(::listen(out.fd.get(), backlog) == 0);
  CHECK(::getsockname(out.fd.get(), reinterpret_cast<sockaddr*>(&raw), &length) == 0);
  out.endpoint = *Endpoint::from_sockaddr(reinterpret_cast<sockaddr*>(&raw), length);
  return out;
}

inline Fd connect_loopback(const Endpoint& to) {
  sockaddr_storage raw{};
  const socklen_t length = to.to_sockaddr(raw);
  Fd fd(::socket(raw.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  const int rc = ::connect(fd.get(), reinterpret_cast<sockaddr*>(&raw), length);
  CHECK(rc == 0 || errno == EINPROGRESS);
  const int on = 1;
  ::setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  return fd;
}

inline Fd accept_now(const LoopbackListener& listener) {
  return Fd(::accept4(listener.fd.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
}

struct TcpPair {
  Fd near, far;
};
inline TcpPair tcp_pair() {
  const auto listener = listen_loopback();
  TcpPair out{connect_loopback(listener.endpoint), {}};
  while (!out.far) out.far = accept_now(listener);
  return out;
}

class LoopFixture : public testing::Test {
 protected:
  // Runs the loop until `done`; false after ten seconds.
  bool until(const std::function<bool()>& done) {
    const auto deadline = net::Clock::now() + std::chrono::seconds(10);
    while (!done()) {
      if (net::Clock::now() > deadline) return false;
      io.restart();
      io.run_one_for(std::chrono::milliseconds(5));
      while (io.poll_one() > 0) {
      }
    }
    return true;
  }

  // All of it, however slowly the other end takes it.
  bool send_all(const Fd& to, std::string_view bytes) {
    return until([&] {
             const ssize_t sent = ::send(to.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
             if (sent > 0) bytes.remove_prefix(static_cast<std::size_t>(sent));
             return bytes.empty() || (sent < 0 && errno != EAGAIN);
           }) &&
           bytes.empty();
  }

  struct Received {
    std::string bytes;
    bool finished = false;  // FIN
    int error = 0;          // ECONNRESET: RST
  };
  // Until `count` bytes are there, or the end.
  Received receive(const Fd& from, std::size_t count = SIZE_MAX) {
    Received out;
    std::string buffer(64U << 10, '\0');
    until([&] {
      const ssize_t got =
          ::recv(from.get(), buffer.data(), std::min(buffer.size(), count - out.bytes.size()), 0);
      if (got > 0) out.bytes.append(buffer.data(), static_cast<std::size_t>(got));
      if (got == 0) out.finished = true;
      if (got < 0 && errno != EAGAIN) out.error = errno;
      return out.finished || out.error != 0 || out.bytes.size() >= count;
    });
    return out;
  }

  boost::asio::io_context io{1};
  net::Reactor reactor{io};
};

inline void fail_on_exception(std::exception_ptr failure) {
  try {
    std::rethrow_exception(std::move(failure));
  } catch (const std::exception& error) {
    ADD_FAILURE() << "a task ended by an exception: " << error.what();
  }
}

// `size` bytes that repeat only after 4 GB, the same for the same seed.
inline std::string pattern(std::size_t size, std::uint32_t seed) {
  std::string out(size, '\0');
  for (char& byte : out) {
    seed = seed * 1664525U + 1013904223U;
    byte = static_cast<char>(seed >> 24);
  }
  return out;
}

}  // namespace sallyport::test
