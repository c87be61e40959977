// SPDX-License-Identifier: Apache-2.0
// The agent's event loop: epoll, timers, nothing else. Single-threaded. A handler may forget any
// descriptor, its own included; a handler that was forgotten is not called any more, even for an
// event already fetched.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <unordered_map>
#include <utility>

#include "base/fd.h"

namespace sallyport::guest {

class Loop {
 public:
  using Clock = std::chrono::steady_clock;
  using Handler = std::function<void()>;
  using TimerId = std::pair<Clock::time_point, std::uint64_t>;

  Loop();

  // Level-triggered. events 0 means registered but silent (a hung-up pipe would otherwise report
  // for ever).
  void watch(int fd, std::uint32_t events, Handler handler);
  void change(int fd, std::uint32_t events);  // unknown descriptors are fine
  void forget(int fd);                        // before close; unknown descriptors are fine

  TimerId after(std::chrono::milliseconds delay, Handler handler);
  void cancel(TimerId id);

  void run();
  void stop() { stopped_ = true; }

 private:
  struct Watch {
    Handler handler;
    std::uint32_t events = 0;
    std::uint32_t generation = 0;
  };

  void fire_timers();
  [[nodiscard]] int next_timeout() const;

  Fd epoll_;
  std::unordered_map<int, std::shared_ptr<Watch>> watches_;
  std::map<TimerId, Handler> timers_;
  std::uint32_t generation_ = 0;
  std::uint64_t timer_count_ = 0;
  bool stopped_ = false;
};

}  // namespace sallyport::guest
