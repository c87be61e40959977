// SPDX-License-Identifier: Apache-2.0
// System calls: sendto, shutdown, recvfrom, setsockopt, close.
#include "firewall/refusal.h"

#include <fmt/format.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>

namespace sallyport::firewall {

namespace {
constexpr std::chrono::milliseconds kLinger{2000};
constexpr std::size_t kMaxDiscarded = 256U << 10;
}  // namespace

bool looks_like_http(Bytes first) {
  static constexpr std::array<std::string_view, 9> kMethods{
      "GET ", "POST ", "PUT ", "HEAD ", "DELETE ", "OPTIONS ", "CONNECT ", "PATCH ", "TRACE "};
  const std::string_view text = as_text(first);
  for (const std::string_view method : kMethods) {
    if (text.starts_with(method)) return true;
  }
  return false;
}

std::string render_forbidden(std::string_view reason) {
  const std::string body = fmt::format("Sallyport refused this connection: {}\n", reason);
  return fmt::format(
      "HTTP/1.1 403 Forbidden\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: {}\r\n"
      "Connection: close\r\nCache-Control: no-store\r\n\r\n{}",
      body.size(), body);
}

net::Task<> say_and_close(net::Bell& bell, net::Socket& client, std::string last_words) {
  if (last_words.empty() || !client.watch(bell)) {
    client.reset();
    co_return;
  }
  // A few hundred bytes into an empty send buffer: taken whole, or the client is gone.
  const ssize_t sent =
      ::send(client.fd(), last_words.data(), last_words.size(), MSG_NOSIGNAL | MSG_MORE);
  if (sent != static_cast<ssize_t>(last_words.size())) {
    client.reset();
    co_return;
  }
  ::shutdown(client.fd(), SHUT_WR);
  net::Timer deadline(bell);
  deadline.start(kLinger);
  std::array<std::uint8_t, 2048> ignored;
  for (std::size_t discarded = 0; discarded < kMaxDiscarded;) {
    const ssize_t got = ::recv(client.fd(), ignored.data(), ignored.size(), 0);
    if (got == 0) break;
    if (got > 0) {
      discarded += static_cast<std::size_t>(got);
      continue;
    }
    if (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR) break;
    if (deadline.expired() || bell.cancelled()) break;
    co_await bell.wait();
  }
  client.close();
}

}  // namespace sallyport::firewall
