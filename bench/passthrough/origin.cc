// SPDX-License-Identifier: Apache-2.0
// The origin: reads a hello and does what its random asks for (wire.h). One thread, epoll, no
// copies for bulk.
#include "passthrough/origin.h"

#include <sys/mman.h>
#include <sys/sendfile.h>

#include <array>
#include <cstring>
#include <string>
#include <vector>

#include "passthrough/sockets.h"
#include "passthrough/wire.h"

namespace sallyport::bench {

namespace {

struct Served {
  std::string hello;
  Wish wish{};
  std::uint64_t left = 0;
};

class Origin {
 public:
  explicit Origin(const Endpoint& at)
      : listener_(listen_on(at)), epoll_(::epoll_create1(0)), zeros_(::memfd_create("bulk", 0)) {
    if (::ftruncate(zeros_, kChunk) != 0) die("ftruncate");
    // Pages that exist: sendfile then only takes references.
    void* pages = ::mmap(nullptr, kChunk, PROT_READ | PROT_WRITE, MAP_SHARED, zeros_, 0);
    std::memset(pages, 'x', kChunk);
    watch(epoll_, listener_, EPOLLIN);
  }

  [[noreturn]] void run() {
    std::array<epoll_event, 256> events;
    while (true) {
      const int count = ::epoll_wait(epoll_, events.data(), static_cast<int>(events.size()), -1);
      for (int i = 0; i < count; ++i) {
        const int fd = events[static_cast<std::size_t>(i)].data.fd;
        if (fd == listener_)
          accept_all();
        else if (!serve(fd))
          ::close(fd);
      }
    }
  }

 private:
  static constexpr std::size_t kChunk = 1U << 20;

  void accept_all() {
    int fd = -1;
    while ((fd = ::accept4(listener_, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0) {
      if (served_.size() <= static_cast<std::size_t>(fd))
        served_.resize(static_cast<std::size_t>(fd) + 1);
      served_[static_cast<std::size_t>(fd)] = {};
      watch(epoll_, fd, EPOLLIN);
    }
  }

  bool serve(int fd) {  // false: close
    Served& served = served_[static_cast<std::size_t>(fd)];
    if (served.wish == Wish::bulk) return send_bulk(fd, served);
    const ssize_t got = ::recv(fd, buffer_.data(), buffer_.size(), 0);
    if (got < 0) return errno == EAGAIN;
    if (got == 0) return false;
    if (served.wish == Wish::echo)
      return ::send(fd, buffer_.data(), static_cast<std::size_t>(got), MSG_NOSIGNAL) == got;
    served.hello.append(buffer_.data(), static_cast<std::size_t>(got));
    if (served.hello.size() < 5) return true;
    const auto byte = [&](std::size_t at) {
      return static_cast<std::size_t>(static_cast<unsigned char>(served.hello[at]));
    };
    const std::size_t whole = 5 + (byte(3) << 8 | byte(4));
    if (served.hello.size() < whole) return true;
    served.wish = static_cast<Wish>(byte(kRandomAt));
    for (std::size_t i = 0; i < 8; ++i)
      served.left |= static_cast<std::uint64_t>(byte(kRandomAt + 1 + i)) << (8 * i);
    const std::string rest = served.hello.substr(whole);
    std::string().swap(served.hello);
    switch (served.wish) {
      case Wish::answer:
        (void)!::send(fd, buffer_.data(), kAnswer, MSG_NOSIGNAL | MSG_MORE);
        return false;
      case Wish::bulk: {
        epoll_event event{.events = EPOLLOUT, .data = {.fd = fd}};
        ::epoll_ctl(epoll_, EPOLL_CTL_MOD, fd, &event);
        return send_bulk(fd, served);
      }
      case Wish::echo:
        return rest.empty() || ::send(fd, rest.data(), rest.size(), MSG_NOSIGNAL) > 0;
    }
    return false;
  }

  bool send_bulk(int fd, Served& served) {
    for (int round = 0; round < 4 && served.left > 0; ++round) {
      off_t offset = 0;
      const ssize_t sent =
          ::sendfile(fd, zeros_, &offset, std::min<std::size_t>(kChunk, served.left));
      if (sent < 0) return errno == EAGAIN;
      served.left -= static_cast<std::uint64_t>(sent);
    }
    return served.left > 0;
  }

  int listener_, epoll_, zeros_;
  std::vector<Served> served_;  // by descriptor
  std::array<char, 64U << 10> buffer_;
};

}  // namespace

void run_origin(const Endpoint& at) {
  static Origin origin(at);
  origin.run();
}

}  // namespace sallyport::bench
