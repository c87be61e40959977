// SPDX-License-Identifier: Apache-2.0
#include "passthrough/client.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <vector>

#include "passthrough/sockets.h"
#include "passthrough/wire.h"

namespace sallyport::bench {

namespace {

double micros(Clock::duration d) { return std::chrono::duration<double, std::micro>(d).count(); }
double seconds(Clock::duration d) { return std::chrono::duration<double>(d).count(); }

double percentile(std::vector<double>& values, double part) {
  if (values.empty()) return 0;
  const auto at =
      values.begin() + static_cast<std::ptrdiff_t>(part * static_cast<double>(values.size() - 1));
  std::nth_element(values.begin(), at, values.end());
  return *at;
}

void print(const std::string& line) {
  fmt::print("{}\n", line);
  std::fflush(stdout);
}

}  // namespace

void load_connections(const Endpoint& to, const std::string& name, unsigned parallel,
                      std::chrono::milliseconds duration) {
  const std::string hello = client_hello(name, Wish::answer, 0);
  const int epoll = ::epoll_create1(0);
  struct Connection {
    Clock::time_point begun;
    std::size_t received = 0;
    bool greeted = false;
  };
  std::vector<Connection> connections(16384);
  std::vector<double> took;
  std::uint64_t failed = 0;
  const Clock::time_point begun = Clock::now();
  const Clock::time_point end = begun + duration;
  unsigned open = 0;
  const auto start = [&] {
    const int fd = connect_to(to, false);
    connections[static_cast<std::size_t>(fd)] = {Clock::now()};
    watch(epoll, fd, EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET);
    ++open;
  };
  for (unsigned i = 0; i < parallel; ++i) start();
  std::array<epoll_event, 256> events;
  std::array<char, 4096> buffer;
  while (open > 0) {
    const int count = ::epoll_wait(epoll, events.data(), static_cast<int>(events.size()), 5000);
    if (count == 0) break;  // stuck: what is still open counts as failed
    for (int i = 0; i < count; ++i) {
      const int fd = events[static_cast<std::size_t>(i)].data.fd;
      Connection& connection = connections[static_cast<std::size_t>(fd)];
      bool over = false;
      if (!connection.greeted && (events[static_cast<std::size_t>(i)].events & EPOLLOUT)) {
        connection.greeted = true;
        over = ::send(fd, hello.data(), hello.size(), MSG_NOSIGNAL) !=
               static_cast<ssize_t>(hello.size());
      }
      while (!over && (events[static_cast<std::size_t>(i)].events & (EPOLLIN | EPOLLRDHUP))) {
        const ssize_t got = ::recv(fd, buffer.data(), buffer.size(), 0);
        if (got > 0) connection.received += static_cast<std::size_t>(got);
        if (got < 0 && errno == EAGAIN) break;
        over = got <= 0;
      }
      if (!over && !(events[static_cast<std::size_t>(i)].events & (EPOLLERR | EPOLLHUP))) continue;
      ::close(fd);
      --open;
      if (connection.received == kAnswer)
        took.push_back(micros(Clock::now() - connection.begun));
      else
        ++failed;
      if (Clock::now() < end) start();
    }
  }
  const double spent = seconds(Clock::now() - begun);
  const std::size_t done = took.size();
  const double p50 = percentile(took, 0.5);
  const double p99 = percentile(took, 0.99);
  print(fmt::format(
      R"({{"connections":{},"failed":{},"seconds":{:.3f},"p50_us":{:.1f},"p99_us":{:.1f}}})", done,
      failed + open, spent, p50, p99));
}

void load_bulk(const Endpoint& to, const std::string& name, unsigned streams, std::uint64_t bytes) {
  const std::string hello = client_hello(name, Wish::bulk, bytes);
  const int epoll = ::epoll_create1(0);
  const Clock::time_point begun = Clock::now();
  for (unsigned i = 0; i < streams; ++i) {
    const int fd = connect_to(to, true);
    if (::send(fd, hello.data(), hello.size(), MSG_NOSIGNAL) < 0) die("send");
    watch(epoll, fd, EPOLLIN);
  }
  std::uint64_t received = 0;
  std::array<epoll_event, 16> events;
  for (unsigned open = streams; open > 0;) {
    const int count = ::epoll_wait(epoll, events.data(), static_cast<int>(events.size()), 10000);
    if (count == 0) break;
    for (int i = 0; i < count; ++i) {
      const int fd = events[static_cast<std::size_t>(i)].data.fd;
      // Counted and thrown away inside the kernel: the client's own copying would hide the proxy's
      // cost.
      const ssize_t got = ::recv(fd, nullptr, 4U << 20, MSG_TRUNC | MSG_DONTWAIT);
      if (got > 0) received += static_cast<std::uint64_t>(got);
      if (got > 0 || (got < 0 && errno == EAGAIN)) continue;
      ::close(fd);
      --open;
    }
  }
  print(fmt::format(R"({{"bytes":{},"seconds":{:.4f}}})", received, seconds(Clock::now() - begun)));
}

void load_round_trips(const Endpoint& to, const std::string& name, unsigned rounds) {
  const std::string hello = client_hello(name, Wish::echo, 0);
  const int fd = connect_to(to, true);
  if (::send(fd, hello.data(), hello.size(), MSG_NOSIGNAL) < 0) die("send");
  std::array<char, 64> message{};
  std::vector<double> took;
  took.reserve(rounds);
  for (unsigned i = 0; i < rounds + 100; ++i) {
    const Clock::time_point sent = Clock::now();
    if (::send(fd, message.data(), message.size(), MSG_NOSIGNAL) !=
        static_cast<ssize_t>(message.size()))
      die("send");
    if (::recv(fd, message.data(), message.size(), MSG_WAITALL) !=
        static_cast<ssize_t>(message.size()))
      die("recv");
    if (i >= 100) took.push_back(micros(Clock::now() - sent));
  }
  const double p50 = percentile(took, 0.5);
  const double p99 = percentile(took, 0.99);
  print(fmt::format(R"({{"rounds":{},"p50_us":{:.2f},"p99_us":{:.2f}}})", rounds, p50, p99));
}

void hold_idle(const Endpoint& to, const std::string& name, unsigned connections) {
  const std::string hello = client_hello(name, Wish::echo, 0);
  std::vector<int> open;
  for (unsigned i = 0; i < connections; ++i) {
    const int fd = connect_to(to, true);
    char byte = 'x';
    if (::send(fd, hello.data(), hello.size(), MSG_NOSIGNAL) < 0 ||
        ::send(fd, &byte, 1, MSG_NOSIGNAL) != 1 || ::recv(fd, &byte, 1, 0) != 1)
      break;
    open.push_back(fd);
  }
  print(fmt::format(R"({{"open":{}}})", open.size()));
  while (std::getchar() != EOF) {
  }
}

}  // namespace sallyport::bench
