// SPDX-License-Identifier: Apache-2.0
// System calls: recvfrom, sendto, splice, pipe2, fcntl (F_SETPIPE_SZ), shutdown, setsockopt, close.
#include "net/splice.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <cerrno>
#include <utility>

namespace sallyport::net {

namespace {

constexpr std::uint64_t kSpliceAfter = 48U
                                       << 10;  // bytes a direction has moved before it may be bulk
constexpr std::size_t kTooSmallToSplice = 8U << 10;
constexpr int kRounds = 16;  // reads of one direction before others get their turn

void set(int fd, int level, int option, int value) {
  ::setsockopt(fd, level, option, &value, sizeof value);
}

void keep_alive(int fd) {
  set(fd, IPPROTO_TCP, TCP_KEEPIDLE, 120);
  set(fd, IPPROTO_TCP, TCP_KEEPINTVL, 30);
  set(fd, IPPROTO_TCP, TCP_KEEPCNT, 6);
  set(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
}

bool again(int error) { return error == EAGAIN || error == EWOULDBLOCK; }

}  // namespace

// ---- pipes

std::unique_ptr<Pipe> PipePool::take() {
  if (!at_rest_.empty()) {
    auto pipe = std::move(at_rest_.back());
    at_rest_.pop_back();
    return pipe;
  }
  if (left_ == 0) return nullptr;
  int ends[2];
  if (::pipe2(ends, O_NONBLOCK | O_CLOEXEC) != 0) return nullptr;  // out of descriptors: copy
  auto pipe = std::make_unique<Pipe>(Fd(ends[0]), Fd(ends[1]));
  // Refused above the uid's soft limit (pipe-user-pages-soft); the default size does as well, only
  // slower.
  const int size = ::fcntl(ends[1], F_SETPIPE_SZ, static_cast<int>(pipe_bytes_));
  pipe->capacity = size > 0 ? static_cast<std::size_t>(size) : 64U << 10;
  --left_;
  return pipe;
}

void PipePool::give(std::unique_ptr<Pipe> pipe) {
  if (at_rest_.size() >= kKept)
    ++left_;
  else
    at_rest_.push_back(std::move(pipe));
}

// ---- what relays share

RelayRoom::RelayRoom(Reactor& reactor, Budget& buffered, RelayLimits limits)
    : reactor_(reactor),
      buffered_(buffered),
      limits_(limits),
      pipes_(limits.pipes, limits.pipe_bytes),
      scratch_(kCopy) {}

Task<> RelayRoom::sweep() {
  Bell bell(reactor_);
  Timer timer(bell);
  while (true) {
    timer.start(limits_.sweep);
    while (!timer.expired()) co_await bell.wait();
    const Clock::time_point now = Clock::now();
    for (Aging& relay : relays_) relay.grow_old(now);
  }
}

// ---- one relay

Relay::Relay(RelayRoom& room, Bell& bell, Socket& client, Socket& upstream,
             std::vector<std::uint8_t> first)
    : room_(room),
      bell_(bell),
      up_(client, upstream),
      down_(upstream, client),
      born_(Clock::now()),
      active_(born_) {
  // Whoever read it gave back what it took for it; here it counts as any bytes that wait.
  if (!first.empty() && !keep(up_, std::move(first))) up_.refused = true;
  room_.relays_.push_back(*this);
}

Relay::~Relay() {
  drop(up_);
  drop(down_);
}

Task<Relay::Outcome> Relay::run() {
  Outcome outcome;
  Socket& client = up_.from;
  Socket& upstream = down_.from;
  const auto end = [&](End why) {
    outcome = {why, up_.moved, down_.moved};
    if (why == End::done) {
      client.close();
      upstream.close();
    } else {
      client.reset();
      upstream.reset();
    }
    drop(up_);
    drop(down_);
    return outcome;
  };

  if (!client.watch(bell_) || !upstream.watch(bell_)) co_return end(End::cancelled);
  while (true) {
    if (bell_.cancelled()) co_return end(End::cancelled);
    const Pumped up = pump(up_, down_);
    const Pumped down = pump(down_, up_);
    if (up == Pumped::reset) co_return end(End::client_reset);
    if (down == Pumped::reset) co_return end(End::upstream_reset);
    if (up_.done && down_.done)
      co_return end(up_.to_gone     ? End::upstream_reset
                    : down_.to_gone ? End::client_reset
                                    : End::done);
    if (too_old_) co_return end(up_.ended || down_.ended ? End::half_closed : End::idle);
    if (up == Pumped::more || down == Pumped::more)
      co_await bell_.yield();
    else
      co_await bell_.wait();
  }
}

// Moves what can be moved now. `reset`: whom the direction reads from is gone without a FIN.
Relay::Pumped Relay::pump(Direction& direction, const Direction& other) {
  if (direction.refused) return Pumped::reset;
  for (int round = 0; round < kRounds; ++round) {
    if (direction.done) return Pumped::waiting;
    if (!direction.kept.empty() || direction.piped > 0) {
      if (!direction.to.writable() || !flush(direction)) return Pumped::waiting;
    }
    if (direction.ended) {
      finish(direction, other);
      return Pumped::waiting;
    }
    if (!direction.from.readable() || !direction.to.writable()) return Pumped::waiting;
    const Pumped result = direction.bulk ? splice_some(direction) : copy(direction, other);
    if (result != Pumped::more) return result;
  }
  return Pumped::more;
}

Relay::Pumped Relay::copy(Direction& direction, const Direction& other) {
  const std::size_t size = room_.scratch_.size();
  std::uint8_t* const scratch = room_.scratch_.data();
  const int from = direction.from.fd();
  const int to = direction.to.fd();
  // Without room to keep a rest, only what the far side takes is taken from the near side.
  const bool roomy = room_.buffered_.take(size);
  if (roomy) room_.buffered_.give(size);

  const bool finished = direction.from.peer_finished();
  ssize_t got = ::recv(from, scratch, size, roomy ? 0 : MSG_PEEK);
  if (got < 0) {
    if (errno == EINTR) return Pumped::more;
    if (!again(errno)) return Pumped::reset;
    direction.from.not_readable();
    return Pumped::waiting;
  }
  if (got == 0) {
    direction.ended = true;
    return Pumped::more;
  }
  auto count = static_cast<std::size_t>(got);
  if (roomy && count < size) {
    // Fewer bytes than asked for, and the FIN was there before the call: these are the last (a read
    // stops early only at urgent data). The FIN leaves with them.
    direction.ended = finished && !direction.from.urgent();
    direction.from.not_readable();
  }

  if (direction.moved > 0 && !std::exchange(direction.no_delay, true))
    set(to, IPPROTO_TCP, TCP_NODELAY, 1);
  const ssize_t sent = ::send(to, scratch, count, MSG_NOSIGNAL | (direction.ended ? MSG_MORE : 0));
  if (sent < 0 && !again(errno)) {
    // The far side is gone. What it sent before is still carried by the other direction, which then
    // sees the end.
    direction.done = direction.to_gone = true;
    return Pumped::waiting;
  }
  const std::size_t written = sent > 0 ? static_cast<std::size_t>(sent) : 0;
  direction.moved += written;
  if (!roomy && written > 0)
    (void)::recv(from, scratch, written, MSG_TRUNC);  // read before: cannot fail
  if (written < count) {
    direction.to.not_writable();
    if (roomy && !keep(direction, {scratch + written, scratch + count})) return Pumped::reset;
    return Pumped::waiting;
  }
  if (count == size && direction.moved >= kSpliceAfter) direction.bulk = true;
  if (direction.ended) finish(direction, other);
  return Pumped::more;
}

Relay::Pumped Relay::splice_some(Direction& direction) {
  auto pipe = room_.pipes_.take();
  if (!pipe) {
    direction.bulk = false;
    return Pumped::more;
  }
  const ssize_t got = ::splice(direction.from.fd(), nullptr, pipe->write.get(), nullptr,
                               pipe->capacity, SPLICE_F_MOVE | SPLICE_F_NONBLOCK);
  if (got <= 0) {
    const int error = errno;
    room_.pipes_.give(std::move(pipe));
    if (got == 0) {
      direction.ended = true;
      return Pumped::more;
    }
    if (error == EINTR) return Pumped::more;
    if (!again(error)) return Pumped::reset;
    direction.from.not_readable();
    return Pumped::waiting;
  }
  direction.pipe = std::move(pipe);
  direction.piped = static_cast<std::size_t>(got);
  if (direction.piped < kTooSmallToSplice) direction.bulk = false;
  return Pumped::more;  // flushed by the next round
}

// False: something is left, or the far side is gone (then the direction is done).
bool Relay::flush(Direction& direction) {
  if (!std::exchange(direction.no_delay, direction.moved > 0) && direction.no_delay)
    set(direction.to.fd(), IPPROTO_TCP, TCP_NODELAY, 1);
  while (direction.piped > 0 || !direction.kept.empty()) {
    ssize_t sent = 0;
    if (direction.piped > 0) {
      sent = ::splice(direction.pipe->read.get(), nullptr, direction.to.fd(), nullptr,
                      direction.piped, SPLICE_F_MOVE | SPLICE_F_NONBLOCK);
    } else {
      sent = ::send(direction.to.fd(), direction.kept.data() + direction.kept_from,
                    direction.kept.size() - direction.kept_from, MSG_NOSIGNAL);
    }
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0 && again(errno)) {
      direction.to.not_writable();
      return false;
    }
    if (sent <= 0) {
      drop(direction);
      direction.done = direction.to_gone = true;
      return false;
    }
    direction.moved += static_cast<std::uint64_t>(sent);
    if (direction.piped > 0) {
      direction.piped -= static_cast<std::size_t>(sent);
      if (direction.piped == 0) room_.pipes_.give(std::move(direction.pipe));
    } else {
      direction.kept_from += static_cast<std::size_t>(sent);
      if (direction.kept_from == direction.kept.size()) drop(direction);
    }
  }
  return true;
}

bool Relay::keep(Direction& direction, std::vector<std::uint8_t> rest) {
  if (!room_.buffered_.take(rest.size())) return false;
  direction.kept = std::move(rest);
  direction.kept_from = 0;
  return true;
}

void Relay::finish(Direction& direction, const Direction& other) {
  // Both ends done: the close says the rest.
  if (!other.done) ::shutdown(direction.to.fd(), SHUT_WR);
  direction.done = true;
}

// Forgets what waits, which ends a direction or a relay.
void Relay::drop(Direction& direction) {
  room_.buffered_.give(direction.kept.size());
  std::vector<std::uint8_t>().swap(direction.kept);
  direction.kept_from = 0;
  if (direction.pipe) {
    direction.pipe.reset();
    room_.pipes_.lose();
  }
  direction.piped = 0;
}

void Relay::grow_old(Clock::time_point now) {
  const std::uint64_t moved = up_.moved + down_.moved;
  if (std::exchange(swept_, moved) != moved) active_ = now;
  const auto limit = up_.ended || down_.ended ? room_.limits_.half_closed : room_.limits_.idle;
  if (now - active_ > limit) {
    too_old_ = true;
    bell_.ring();
  }
  if (!kept_alive_ && now - born_ > room_.limits_.keepalive_after) {
    kept_alive_ = true;
    keep_alive(up_.from.fd());
    keep_alive(down_.from.fd());
  }
}

}  // namespace sallyport::net
