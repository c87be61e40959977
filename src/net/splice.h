// SPDX-License-Identifier: Apache-2.0
// Carries bytes both ways between two sockets until both sides are done, unchanged and in order.
//
// Theory of operation. A direction starts by copying through one scratch buffer that all relays
// share; what the far side does not take at once is kept (from the sandbox's budget) and nothing
// more is read until it is gone, so a slow reader slows the sender by TCP and costs at most kCopy
// bytes. A direction that moves whole buffers is *bulk*: it goes over to splice(2), which
// never copies but needs a pipe. Pipes come from a bounded pool, are held only while they hold
// bytes, and a direction that finds none goes on copying; descriptors therefore do not grow with
// connections. A FIN is passed on as a FIN when everything before it has been written (R-016,
// R-019), an RST as an RST. The last bytes and the FIN leave as one packet where both are known.
// When both ends are done the sockets are closed without a shutdown before. Ends: see Relay::End; a
// half-closed connection without traffic and an idle one end by limits that a sweep looks at
// so that an open connection has no timer. SPLICE_F_MORE is never used: on a relay
// it holds back the last segment for 200 ms.
#pragma once

#include <boost/intrusive/list.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/fd.h"
#include "net/budget.h"
#include "net/reactor.h"
#include "net/task.h"

namespace sallyport::net {

struct Pipe {
  Fd read, write;
  std::size_t capacity = 0;
};

// Pipes at rest, all empty. Never more exist than the limit.
class PipePool {
 public:
  PipePool(std::size_t limit, std::size_t pipe_bytes) : left_(limit), pipe_bytes_(pipe_bytes) {}
  std::unique_ptr<Pipe> take();  // null: none left, copy instead
  void give(std::unique_ptr<Pipe> pipe);
  void lose() { ++left_; }  // a pipe was closed because bytes were in it

 private:
  static constexpr std::size_t kKept = 8;  // more at rest are closed
  std::vector<std::unique_ptr<Pipe>> at_rest_;
  std::size_t left_;
  std::size_t pipe_bytes_;
};

struct RelayLimits {
  std::chrono::seconds half_closed{120};     // one side finished and no byte for so long
  std::chrono::seconds idle{6 * 3600};       // no byte in either direction for so long
  std::chrono::seconds keepalive_after{60};  // a connection of this age gets TCP keepalive
  std::chrono::milliseconds sweep{10000};    // how often these are looked at
  std::size_t pipes = 64;
  std::size_t pipe_bytes = 256U << 10;
};

// Something that a sweep looks at now and then.
class Aging : public boost::intrusive::list_base_hook<AutoUnlink> {
 public:
  virtual void grow_old(Clock::time_point now) = 0;  // may ring bells; resumes nobody

 protected:
  ~Aging() = default;
};

class Relay;

// What the relays of one worker share.
class RelayRoom {
 public:
  RelayRoom(Reactor& reactor, Budget& buffered, RelayLimits limits);
  Task<> sweep();  // runs for ever: spawn it once

 private:
  friend Relay;
  static constexpr std::size_t kCopy = 16U << 10;
  Reactor& reactor_;
  Budget& buffered_;
  RelayLimits limits_;
  PipePool pipes_;
  std::vector<std::uint8_t> scratch_;
  boost::intrusive::list<Aging, boost::intrusive::constant_time_size<false>> relays_;
};

class Relay final : private Aging {
 public:
  enum class End { done, client_reset, upstream_reset, half_closed, idle, cancelled };
  struct Outcome {
    End end = End::done;
    std::uint64_t up = 0;    // written to the upstream
    std::uint64_t down = 0;  // written to the client
  };

  // `first` was read from the client and goes to the upstream before anything else. Borrows both
  // sockets and closes them.
  Relay(RelayRoom& room, Bell& bell, Socket& client, Socket& upstream,
        std::vector<std::uint8_t> first);
  ~Relay();

  Task<Outcome> run();

 private:
  enum class Pumped { waiting, more, reset };
  struct Direction {
    Direction(Socket& source, Socket& target) : from(source), to(target) {}
    Socket& from;
    Socket& to;
    std::vector<std::uint8_t> kept;  // read, not yet written; bytes before `kept_from` are written
    std::size_t kept_from = 0;
    std::unique_ptr<Pipe> pipe;  // while it holds bytes
    std::size_t piped = 0;
    std::uint64_t moved = 0;
    bool bulk = false;
    bool no_delay = false;
    bool ended = false;  // FIN read
    bool done = false;   // and passed on
    bool to_gone =
        false;  // nothing can be written any more; the other direction goes on to its end
    bool refused = false;  // no room for the first bytes
  };

  Pumped pump(Direction& direction, const Direction& other);
  Pumped copy(Direction& direction, const Direction& other);
  Pumped splice_some(Direction& direction);
  bool flush(Direction& direction);  // false: the far side is gone
  bool keep(Direction& direction, std::vector<std::uint8_t> rest);
  void finish(Direction& direction, const Direction& other);
  void drop(Direction& direction);
  void grow_old(Clock::time_point now) override;

  RelayRoom& room_;
  Bell& bell_;
  Direction up_;
  Direction down_;
  Clock::time_point born_;
  Clock::time_point active_;
  std::uint64_t swept_ = 0;  // bytes moved when the sweep last looked
  bool kept_alive_ = false;
  bool too_old_ = false;
};

}  // namespace sallyport::net
