// SPDX-License-Identifier: Apache-2.0
// One ub_event is a descriptor watch, a timer, or both, with libevent's meaning: a watch without
// UB_EV_PERSIST fires once; with it, the timeout starts anew at each firing. libunbound may free
// the event inside its own callback, and closes the descriptor itself after ub_event_del, so the
// watch borrows the descriptor and lets go of it at once.
#include "net/unbound_events.h"

#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <memory>
#include <optional>

namespace sallyport {

namespace asio = boost::asio;
using Callback = void (*)(int, short, void*);

namespace {

// What pending handlers keep alive. `round` grows whenever the event is changed, so that a late
// handler knows it is stale.
struct Watch : std::enable_shared_from_this<Watch> {
  explicit Watch(const asio::any_io_executor& executor) : timer(executor) {}

  void activate(const timeval* timeout);
  void deactivate();
  void watch(asio::posix::descriptor_base::wait_type type, short bit);
  void start_timer();
  void fired(short bits);

  int fd = -1;
  short bits = 0;
  Callback callback = nullptr;
  void* argument = nullptr;
  std::optional<std::chrono::microseconds> timeout;
  bool active = false;
  unsigned round = 0;
  std::optional<asio::posix::stream_descriptor> descriptor;
  asio::steady_timer timer;
};

void Watch::activate(const timeval* wanted) {
  deactivate();
  active = true;
  timeout.reset();
  if (wanted != nullptr) {
    timeout = std::chrono::seconds(wanted->tv_sec) + std::chrono::microseconds(wanted->tv_usec);
    start_timer();
  }
  if (fd < 0 || (bits & (UB_EV_READ | UB_EV_WRITE)) == 0) return;
  boost::system::error_code error;
  descriptor.emplace(timer.get_executor());
  descriptor->assign(fd, error);
  if (error) {
    descriptor.reset();
    return;  // the timeout, which libunbound always sets on what it waits for, ends the wait
  }
  if ((bits & UB_EV_READ) != 0) watch(asio::posix::descriptor_base::wait_read, UB_EV_READ);
  if ((bits & UB_EV_WRITE) != 0) watch(asio::posix::descriptor_base::wait_write, UB_EV_WRITE);
}

void Watch::deactivate() {
  ++round;
  active = false;
  timer.cancel();
  if (descriptor) (void)descriptor->release();
  descriptor.reset();
}

void Watch::watch(asio::posix::descriptor_base::wait_type type, short bit) {
  descriptor->async_wait(
      type, [self = shared_from_this(), type, bit, at = round](boost::system::error_code error) {
        if (self->round != at || error) return;
        self->fired(bit);
        if (self->round == at && self->active && self->descriptor) self->watch(type, bit);
      });
}

void Watch::start_timer() {
  timer.expires_after(*timeout);
  timer.async_wait([self = shared_from_this(), at = round](boost::system::error_code error) {
    if (self->round != at || error) return;
    self->fired(UB_EV_TIMEOUT);
  });
}

void Watch::fired(short what) {
  const auto self = shared_from_this();  // the callback may free the event
  if ((bits & UB_EV_PERSIST) == 0) {
    deactivate();
  } else if (timeout) {
    timer.cancel();
    start_timer();
  }
  callback(fd, what, argument);
}

}  // namespace

struct UnboundEvent {
  ub_event unbound;  // first, as in Base
  std::shared_ptr<Watch> watch;

  static Watch& of(ub_event* event) { return *reinterpret_cast<UnboundEvent*>(event)->watch; }
  static UnboundEvents::Base& of(ub_event_base* base) {
    return *reinterpret_cast<UnboundEvents::Base*>(base);
  }

  static ub_event* make(ub_event_base* base, int fd, short bits, Callback callback,
                        void* argument) {
    auto* event =
        new UnboundEvent{{UB_EVENT_MAGIC, vmt()}, std::make_shared<Watch>(of(base).executor)};
    event->watch->fd = fd;
    event->watch->bits = bits;
    event->watch->callback = callback;
    event->watch->argument = argument;
    return &event->unbound;
  }
  static void destroy(ub_event* event) {
    of(event).deactivate();
    delete reinterpret_cast<UnboundEvent*>(event);
  }
  static ub_event_vmt* vmt() {
    static ub_event_vmt table = {
        .add_bits = [](ub_event* event, short bits) { of(event).bits |= bits; },
        .del_bits = [](ub_event* event,
                       short bits) { of(event).bits &= static_cast<short>(~bits); },
        .set_fd = [](ub_event* event, int fd) { of(event).fd = fd; },
        .free = destroy,
        .add =
            [](ub_event* event, timeval* timeout) {
              of(event).activate(timeout);
              return 0;
            },
        .del =
            [](ub_event* event) {
              of(event).deactivate();
              return 0;
            },
        .add_timer =
            [](ub_event* event, ub_event_base*, Callback callback, void* argument,
               timeval* timeout) {
              Watch& watch = of(event);
              watch.callback = callback;
              watch.argument = argument;
              watch.activate(timeout);
              return 0;
            },
        .del_timer =
            [](ub_event* event) {
              of(event).deactivate();
              return 0;
            },
        .add_signal = [](ub_event*, timeval*) { return -1; },
        .del_signal = [](ub_event*) { return -1; },
        .winsock_unregister_wsaevent = [](ub_event*) {},
        .winsock_tcp_wouldblock = [](ub_event*, int) {},
    };
    return &table;
  }
};

UnboundEvents::UnboundEvents(asio::any_io_executor executor) : base_{{}, std::move(executor)} {
  static ub_event_base_vmt table = {
      .free = [](ub_event_base*) {},
      .dispatch = [](ub_event_base*) { return -1; },
      .loopexit = [](ub_event_base*, timeval*) { return -1; },
      .new_event = UnboundEvent::make,
      .new_signal =
          [](ub_event_base* base, int fd, Callback callback, void* argument) {
            return UnboundEvent::make(base, fd, 0, callback, argument);
          },
      .winsock_register_wsaevent = [](ub_event_base*, void*, Callback, void*) -> ub_event* {
        return nullptr;
      },
  };
  base_.unbound = {UB_EVENT_MAGIC, &table};
}

}  // namespace sallyport
