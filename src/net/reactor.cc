// SPDX-License-Identifier: Apache-2.0
// System calls: epoll_create1, epoll_ctl, epoll_wait, setsockopt, close (and Asio's own).
#include "net/reactor.h"

#include <sys/socket.h>

#include <boost/asio/post.hpp>
#include <utility>

#include "base/check.h"

namespace sallyport::net {

namespace asio = boost::asio;

namespace {
// Turns of our own before Asio gets the thread back: DNS, control and the resolver must not starve
// under load.
constexpr int kTurnsInARow = 16;
}  // namespace

void Bell::ring() {
  rung_ = true;
  if (!waiter_ || is_linked()) return;
  reactor_.ready_.push_back(*this);
  if (!reactor_.in_turn_) reactor_.soon();
}

void Timer::start(Clock::duration after) {
  unlink();
  expired_ = false;
  deadline_ = Clock::now() + after;
  Reactor& reactor = bell_.reactor();
  // Deadlines mostly come in the order they are set.
  reactor.timers_.insert(reactor.timers_.end(), *this);
  if (!reactor.in_turn_) reactor.arm_clock();
}

bool Socket::watch(Bell& bell, std::uint32_t events) {
  const bool first = bell_ == nullptr;
  bell_ = &bell;
  if (!first) return true;
  events_ = events;
  epoll_event event{.events = events, .data = {.ptr = this}};
  return ::epoll_ctl(bell.reactor().epoll_.native_handle(), EPOLL_CTL_ADD, fd(), &event) == 0;
}

void Socket::not_writable() {
  writable_ = false;
  if (bell_ == nullptr || (events_ & EPOLLOUT)) return;
  events_ |= EPOLLOUT;
  resume(bell_->reactor(), events_);  // looks again: no edge is missed
}

void Socket::pause(Reactor& reactor) { resume(reactor, 0); }

void Socket::resume(Reactor& reactor, std::uint32_t events) {
  epoll_event event{.events = events, .data = {.ptr = this}};
  ::epoll_ctl(reactor.epoll_.native_handle(), EPOLL_CTL_MOD, fd(), &event);
}

void Socket::reset() {
  if (!fd_) return;
  const linger now{.l_onoff = 1, .l_linger = 0};
  ::setsockopt(fd(), SOL_SOCKET, SO_LINGER, &now, sizeof now);
  close();
}

Reactor::Reactor(asio::io_context& io)
    : io_(io), epoll_(io, ::epoll_create1(EPOLL_CLOEXEC)), clock_(io) {
  watch_epoll();
}

Reactor::~Reactor() {
  // Whoever waits is gone by now: a TaskGroup dies before its reactor.
  CHECK(ready_.empty());
  CHECK(timers_.empty());
}

void Reactor::watch_epoll() {
  epoll_.async_wait(asio::posix::stream_descriptor::wait_read,
                    [this](boost::system::error_code error) {
                      if (error) return;  // only when the reactor is destroyed
                      turn();
                      watch_epoll();
                    });
}

void Reactor::turn() {
  in_turn_ = true;
  for (int count = 0; count < kTurnsInARow; ++count) {
    const int events = raise_flags();
    if (events == 0 && ready_.empty()) break;
    resume_ready();
    // One event alone is a quiet moment: Asio waits better than we do.
    if (events <= 1 && ready_.empty()) break;
  }
  in_turn_ = false;
  if (!ready_.empty()) soon();
  if (std::exchange(end_wanted_, false) && end_action_) end_action_();
  arm_clock();
}

void Reactor::want_end_of_turn() {
  end_wanted_ = true;
  if (!in_turn_) soon();
}

int Reactor::raise_flags() {
  const int count =
      ::epoll_wait(epoll_.native_handle(), events_.data(), static_cast<int>(events_.size()), 0);
  for (int i = 0; i < count; ++i) {
    const std::uint32_t what = events_[static_cast<std::size_t>(i)].events;
    Socket& socket = *static_cast<Socket*>(events_[static_cast<std::size_t>(i)].data.ptr);
    if (what & (EPOLLERR | EPOLLHUP)) socket.failed_ = true;
    if (what & EPOLLPRI) socket.urgent_ = true;
    if (what & EPOLLRDHUP) socket.peer_finished_ = true;
    if (what & (EPOLLIN | EPOLLRDHUP | EPOLLERR | EPOLLHUP)) socket.readable_ = true;
    if (what & (EPOLLOUT | EPOLLERR | EPOLLHUP)) socket.writable_ = true;
    socket.bell_->ring();
  }
  return count;
}

void Reactor::resume_ready() {
  // Only those that are ready now: one that yields comes after the next look at epoll.
  decltype(ready_) batch;
  batch.swap(ready_);
  while (!batch.empty()) {
    Bell& bell = batch.front();
    batch.pop_front();
    bell.rung_ = false;
    std::exchange(bell.waiter_, nullptr).resume();  // may destroy this bell, or others of the batch
  }
}

void Reactor::soon() {
  if (std::exchange(soon_, true)) return;
  asio::post(io_, [this] {
    soon_ = false;
    turn();
  });
}

void Reactor::arm_clock() {
  if (timers_.empty()) return;  // a clock that still runs finds nothing to do
  const Clock::time_point next = timers_.begin()->deadline_;
  if (next >= clock_set_for_) return;
  clock_set_for_ = next;
  clock_.expires_at(next);
  clock_.async_wait([this](boost::system::error_code error) {
    if (error) return;  // set anew for an earlier time
    clock_set_for_ = Clock::time_point::max();
    expire_timers();
  });
}

void Reactor::expire_timers() {
  in_turn_ = true;
  const Clock::time_point now = Clock::now();
  while (!timers_.empty() && timers_.begin()->deadline_ <= now) {
    Timer& timer = *timers_.begin();
    timer.unlink();
    timer.expired_ = true;
    timer.bell_.ring();
  }
  in_turn_ = false;
  turn();
}

}  // namespace sallyport::net
