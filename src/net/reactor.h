// SPDX-License-Identifier: Apache-2.0
// Readiness of many sockets for one thread, with as few system calls as a relay can do with.
//
// Theory of operation. The reactor has an epoll of its own that Asio watches as one descriptor, so
// that timers, DNS and the resolver live on Asio while connections do not pay for it. A socket is
// added to that epoll once, edge-triggered, and stays as it is until it is closed. What epoll
// reports becomes flags of the Socket (readable, writable,
// ...), which stay until a call says EAGAIN. A coroutine waits on its one Bell, which rings when a
// flag of any of its sockets rises, a timer of its own expires, or somebody cancels it; it then
// looks at the flags. A turn first raises the flags of a whole batch of events and only then
// resumes coroutines, each once: so no event can refer to a socket that the same batch destroyed,
// and what happened together is seen together.
#pragma once

#include <sys/epoll.h>

#include <array>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/intrusive/list.hpp>
#include <boost/intrusive/set.hpp>
#include <chrono>
#include <coroutine>
#include <cstdint>
#include <functional>

#include "base/fd.h"

namespace sallyport::net {

using Clock = std::chrono::steady_clock;
using AutoUnlink = boost::intrusive::link_mode<boost::intrusive::auto_unlink>;

class Reactor;

// What one coroutine waits on. Rings are not counted: a waiter looks at all it waits for, each
// time.
class Bell : public boost::intrusive::list_base_hook<AutoUnlink> {
 public:
  explicit Bell(Reactor& reactor) : reactor_(reactor) {}
  Bell(const Bell&) = delete;
  Bell& operator=(const Bell&) = delete;

  void ring();
  // For good: whatever the coroutine waits for now or later returns at once. It asks cancelled()
  // and leaves.
  void cancel() {
    cancelled_ = true;
    ring();
  }
  [[nodiscard]] bool cancelled() const { return cancelled_; }
  [[nodiscard]] Reactor& reactor() const { return reactor_; }

  auto wait() {
    struct Awaiter {
      Bell& bell;
      bool await_ready() noexcept { return std::exchange(bell.rung_, false) || bell.cancelled_; }
      void await_suspend(std::coroutine_handle<> waiter) noexcept { bell.waiter_ = waiter; }
      void await_resume() noexcept {}
    };
    return Awaiter{*this};
  }
  // Lets every other ready coroutine run first.
  auto yield() {
    struct Awaiter {
      Bell& bell;
      bool await_ready() noexcept { return false; }
      void await_suspend(std::coroutine_handle<> waiter) noexcept {
        bell.waiter_ = waiter;
        bell.ring();
      }
      void await_resume() noexcept {}
    };
    return Awaiter{*this};
  }

 private:
  friend Reactor;
  Reactor& reactor_;
  std::coroutine_handle<> waiter_;
  bool rung_ = false;
  bool cancelled_ = false;
};

// Rings a bell once, later. Starting and stopping cost no system call.
class Timer : public boost::intrusive::set_base_hook<AutoUnlink> {
 public:
  explicit Timer(Bell& bell) : bell_(bell) {}
  Timer(const Timer&) = delete;
  Timer& operator=(const Timer&) = delete;

  void start(Clock::duration after);
  void stop() { unlink(); }
  [[nodiscard]] bool running() const { return is_linked(); }
  [[nodiscard]] bool expired() const { return expired_; }  // since the last start()

  struct Earlier {
    bool operator()(const Timer& a, const Timer& b) const { return a.deadline_ < b.deadline_; }
  };

 private:
  friend Reactor;
  Bell& bell_;
  Clock::time_point deadline_;
  bool expired_ = false;
};

// A non-blocking descriptor and what is known of its readiness. Stays where it is: epoll points at
// it.
class Socket {
 public:
  explicit Socket(Fd fd) : fd_(std::move(fd)) {}
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;

  [[nodiscard]] int fd() const { return fd_.get(); }
  [[nodiscard]] bool open() const { return static_cast<bool>(fd_); }
  static constexpr std::uint32_t kReading = EPOLLIN | EPOLLPRI | EPOLLRDHUP | EPOLLET;
  // From here on events ring `bell`. The first call is the one epoll_ctl of the socket's life, but
  // for a second one if a write ever finds no room: a socket that is always writable would report
  // just that, once, to nobody's use.
  [[nodiscard]] bool watch(Bell& bell, std::uint32_t events = kReading);
  [[nodiscard]] bool watched() const { return bell_ != nullptr; }
  // No events until resume(): for a listener that cannot be served now.
  void pause(Reactor& reactor);
  void resume(Reactor& reactor, std::uint32_t events);

  // Flags. A fresh socket is taken to be ready: the first call finds out.
  [[nodiscard]] bool readable() const { return readable_; }
  [[nodiscard]] bool writable() const { return writable_; }
  // FIN has come; there may be bytes before it.
  [[nodiscard]] bool peer_finished() const { return peer_finished_; }
  [[nodiscard]] bool failed() const { return failed_; }  // EPOLLERR or EPOLLHUP
  [[nodiscard]] bool urgent() const { return urgent_; }  // there was urgent data
  // An end that is known needs no further edge.
  void not_readable() { readable_ = peer_finished_ || failed_; }
  void not_writable();
  // After connect(), or when nothing can have come yet.
  void expect_events() { readable_ = writable_ = false; }

  void close() { fd_.reset(); }
  void reset();  // closes with RST
  [[nodiscard]] Fd release() { return std::move(fd_); }

 private:
  friend Reactor;
  Fd fd_;
  Bell* bell_ = nullptr;
  std::uint32_t events_ = 0;
  bool readable_ = true;
  bool writable_ = true;
  bool peer_finished_ = false;
  bool failed_ = false;
  bool urgent_ = false;
};

class Reactor {
 public:
  explicit Reactor(boost::asio::io_context& io);
  Reactor(const Reactor&) = delete;
  Reactor& operator=(const Reactor&) = delete;
  ~Reactor();

  [[nodiscard]] boost::asio::io_context& io() { return io_; }
  // Called at the end of each turn in which somebody asked for it; outside a turn one is made.
  void at_end_of_turn(std::function<void()> action) { end_action_ = std::move(action); }
  void want_end_of_turn();

 private:
  friend Bell;
  friend Timer;
  friend Socket;

  void watch_epoll();
  void turn();
  int raise_flags();  // how many events
  void resume_ready();
  void soon();  // a ring from outside a turn
  void arm_clock();
  void expire_timers();

  boost::asio::io_context& io_;
  boost::asio::posix::stream_descriptor epoll_;
  boost::asio::steady_timer clock_;
  Clock::time_point clock_set_for_ = Clock::time_point::max();
  boost::intrusive::list<Bell, boost::intrusive::constant_time_size<false>> ready_;
  boost::intrusive::multiset<Timer, boost::intrusive::compare<Timer::Earlier>,
                             boost::intrusive::constant_time_size<false>>
      timers_;
  std::function<void()> end_action_;
  bool end_wanted_ = false;
  bool in_turn_ = false;
  bool soon_ = false;
  std::array<epoll_event, 128> events_;
};

}  // namespace sallyport::net
