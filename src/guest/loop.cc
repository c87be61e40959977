// SPDX-License-Identifier: Apache-2.0
#include "guest/loop.h"

#include <sys/epoll.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "base/check.h"

namespace sallyport::guest {
namespace {

constexpr int kForEver = -1;
constexpr int kLongestWaitMs = 60'000;

std::uint64_t tag(int fd, std::uint32_t generation) {
  return (std::uint64_t(generation) << 32) | std::uint32_t(fd);
}

}  // namespace

Loop::Loop() : epoll_(::epoll_create1(EPOLL_CLOEXEC)) { CHECK(epoll_); }

void Loop::watch(int fd, std::uint32_t events, Handler handler) {
  forget(fd);
  auto entry = std::make_shared<Watch>();
  entry->handler = std::move(handler);
  entry->generation = ++generation_;
  watches_[fd] = std::move(entry);
  change(fd, events);
}

void Loop::change(int fd, std::uint32_t events) {
  const auto found = watches_.find(fd);
  if (found == watches_.end() || found->second->events == events) return;
  epoll_event event{.events = events, .data = {.u64 = tag(fd, found->second->generation)}};
  const int operation = events == 0                  ? EPOLL_CTL_DEL
                        : found->second->events == 0 ? EPOLL_CTL_ADD
                                                     : EPOLL_CTL_MOD;
  CHECK(::epoll_ctl(epoll_.get(), operation, fd, &event) == 0);
  found->second->events = events;
}

void Loop::forget(int fd) {
  change(fd, 0);
  watches_.erase(fd);
}

Loop::TimerId Loop::after(std::chrono::milliseconds delay, Handler handler) {
  const TimerId id{Clock::now() + delay, ++timer_count_};
  timers_.emplace(id, std::move(handler));
  return id;
}

void Loop::cancel(TimerId id) { timers_.erase(id); }

int Loop::next_timeout() const {
  if (timers_.empty()) return kForEver;
  const auto left =
      std::chrono::ceil<std::chrono::milliseconds>(timers_.begin()->first.first - Clock::now());
  return int(std::clamp<std::chrono::milliseconds::rep>(left.count(), 0, kLongestWaitMs));
}

void Loop::fire_timers() {
  const auto now = Clock::now();
  while (!timers_.empty() && timers_.begin()->first.first <= now && !stopped_) {
    const Handler handler = std::move(timers_.begin()->second);
    timers_.erase(timers_.begin());
    handler();
  }
}

void Loop::run() {
  std::array<epoll_event, 64> events{};
  while (!stopped_) {
    const int count = ::epoll_wait(epoll_.get(), events.data(), int(events.size()), next_timeout());
    CHECK(count >= 0 || errno == EINTR);
    for (int i = 0; i < count && !stopped_; ++i) {
      const std::uint64_t seen = events[std::size_t(i)].data.u64;
      const auto found = watches_.find(int(seen & 0xffffffffU));
      if (found == watches_.end() || found->second->generation != seen >> 32) continue;
      const auto entry = found->second;  // keeps the handler alive while it runs
      if (entry->events != 0) entry->handler();
    }
    fire_timers();
  }
}

}  // namespace sallyport::guest
