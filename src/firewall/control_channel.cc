// SPDX-License-Identifier: Apache-2.0
// System calls: recvmsg, sendto.
#include "firewall/control_channel.h"

#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/log.h"
#include "firewall/control.h"

namespace sallyport::firewall {

namespace {
constexpr std::size_t kMaxPassed = 4;
constexpr std::size_t kMaxUnsent = 1U << 20;
constexpr std::size_t kRead = 64U << 10;
}  // namespace

ControlChannel::ControlChannel(net::Reactor& reactor, Fd channel, Handler handler)
    : bell_(reactor), socket_(std::move(channel)), handler_(std::move(handler)) {}

net::Task<> ControlChannel::run() {
  if (!socket_.watch(bell_)) co_return;
  while (!closed()) {
    if (socket_.readable()) {
      if (!receive() || !answer_all()) break;
    } else {
      if (!flush()) break;
      co_await bell_.wait();
    }
  }
  bell_.cancel();
  socket_.close();
}

bool ControlChannel::receive() {
  const std::size_t before = in_.size();
  in_.resize(before + kRead);
  iovec part{in_.data() + before, kRead};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(kMaxPassed * sizeof(int))> ancillary;
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = ancillary.data();
  message.msg_controllen = ancillary.size();
  const ssize_t got = ::recvmsg(socket_.fd(), &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  const int error = errno;
  in_.resize(before + (got > 0 ? static_cast<std::size_t>(got) : 0));
  if (got < 0) {
    if (error == EAGAIN || error == EWOULDBLOCK) socket_.not_readable();
    return error == EAGAIN || error == EWOULDBLOCK || error == EINTR;
  }
  for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr;
       header = CMSG_NXTHDR(&message, header)) {
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < count; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(header) + i * sizeof fd, sizeof fd);
      passed_.emplace_back(fd);
    }
  }
  return got > 0 && passed_.size() <= kMaxPassed;
}

bool ControlChannel::answer_all() {
  std::size_t at = 0;
  while (true) {
    auto frame = control::parse_frame(as_bytes(std::string_view(in_).substr(at)));
    if (!frame) {
      in_.erase(0, at);
      if (frame.error() == ParseStop::need_more) return flush();
      log::error("the supervisor sent a frame that cannot be read");
      return false;
    }
    at += frame->consumed;
    Fd none;
    Fd& passed = passed_.empty() ? none : passed_.front();
    json::object answer = handler_(frame->body, passed);
    if (!passed_.empty() && !passed_.front()) passed_.pop_front();
    if (const auto* id = frame->body.if_contains("id")) answer["id"] = *id;
    send(answer);
  }
}

void ControlChannel::send(const json::object& message) {
  if (closed()) return;
  out_ += control::render_frame(message);
  if (out_.size() > kMaxUnsent || !flush()) close();
}

bool ControlChannel::flush() {
  while (!out_.empty()) {
    const ssize_t sent =
        ::send(socket_.fd(), out_.data(), out_.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0) return errno == EAGAIN || errno == EWOULDBLOCK;
    out_.erase(0, static_cast<std::size_t>(sent));
  }
  return true;
}

}  // namespace sallyport::firewall
