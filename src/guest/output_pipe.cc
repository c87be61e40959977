// SPDX-License-Identifier: Apache-2.0
#include "guest/output_pipe.h"

#include <sys/epoll.h>
#include <sys/ioctl.h>

#include <algorithm>
#include <array>
#include <cerrno>

namespace sallyport::guest {
namespace {

constexpr std::size_t kReadSize = 32U << 10;

}  // namespace

OutputPipe::OutputPipe(Loop& loop, Fd fd, std::function<void(Bytes)> deliver,
                       std::function<void()> ended)
    : loop_(loop), fd_(std::move(fd)), deliver_(std::move(deliver)), ended_(std::move(ended)) {
  loop_.watch(fd_.get(), EPOLLIN, [this] { readable(); });
}

OutputPipe::~OutputPipe() {
  if (fd_) loop_.forget(fd_.get());
}

void OutputPipe::pause(bool paused) {
  if (fd_ && delivering_) loop_.change(fd_.get(), paused ? 0 : EPOLLIN);
}

void OutputPipe::finish() {
  if (!delivering_) return;
  int waiting = 0;
  if (::ioctl(fd_.get(), FIONREAD, &waiting) != 0 || waiting <= 0) return end();
  left_ = std::size_t(waiting);
}

void OutputPipe::discard() {
  if (delivering_) end();
}

void OutputPipe::end() {
  delivering_ = false;
  if (fd_) loop_.change(fd_.get(), EPOLLIN);
  ended_();
}

void OutputPipe::readable() {
  static std::array<std::uint8_t, kReadSize>
      buffer;  // one thread; a frame of its own would be touched for each event
  const std::size_t want = delivering_ && left_ ? std::min(*left_, buffer.size()) : buffer.size();
  const ssize_t got = ::read(fd_.get(), buffer.data(), want);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (got <= 0) {
    loop_.forget(fd_.get());
    fd_.reset();
    if (delivering_) return end();
    return ended_();
  }
  if (!delivering_) return;
  if (left_) *left_ -= std::size_t(got);
  const bool last = left_ && *left_ == 0;
  deliver_(Bytes(buffer.data(), std::size_t(got)));
  if (last && delivering_) end();
}

}  // namespace sallyport::guest
