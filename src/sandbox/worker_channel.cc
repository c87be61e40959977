// SPDX-License-Identifier: Apache-2.0
#include "sandbox/worker_channel.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>

#include "firewall/control.h"

namespace sallyport::sandbox {
namespace {

namespace control = firewall::control;
using Clock = std::chrono::steady_clock;

constexpr int kRounds = 16;  // reads before others get their turn

// Writes all of `bytes`, the descriptor beside the first of them.
Result<> send_frame(int socket, std::string_view bytes, int passed, Clock::time_point deadline) {
  while (!bytes.empty()) {
    iovec part{const_cast<char*>(bytes.data()), bytes.size()};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    alignas(cmsghdr) char space[CMSG_SPACE(sizeof(int))] = {};
    if (passed >= 0) {
      message.msg_control = space;
      message.msg_controllen = sizeof space;
      cmsghdr* header = CMSG_FIRSTHDR(&message);
      header->cmsg_level = SOL_SOCKET;
      header->cmsg_type = SCM_RIGHTS;
      header->cmsg_len = CMSG_LEN(sizeof(int));
      std::memcpy(CMSG_DATA(header), &passed, sizeof passed);
    }
    const ssize_t sent = ::sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent > 0) {
      bytes.remove_prefix(static_cast<std::size_t>(sent));
      passed = -1;
      continue;
    }
    if (errno == EINTR) continue;
    if (errno != EAGAIN) return fail_errno("worker channel");
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
    if (left <= 0) return fail(Code::timed_out, "the firewall worker does not read");
    pollfd waiting{socket, POLLOUT, 0};
    (void)::poll(&waiting, 1, static_cast<int>(std::min<std::int64_t>(left, 1000)));
  }
  return {};
}

Result<json::object> answer_of(json::object frame) {
  const json::value* ok = frame.if_contains("ok");
  if (ok != nullptr && ok->is_bool() && ok->get_bool()) return frame;
  std::string message = "the firewall worker refused";
  Code code = Code::internal;
  if (const json::value* error = frame.if_contains("error");
      error != nullptr && error->is_object()) {
    if (const json::value* text = error->get_object().if_contains("message");
        text != nullptr && text->is_string()) {
      message = "firewall worker: " + std::string(text->get_string().subview(0, 2048));
    }
    const json::value* name = error->get_object().if_contains("code");
    if (name != nullptr && name->is_string() && name->get_string() == "invalid")
      code = Code::invalid;
  }
  return fail(code, std::move(message));
}

}  // namespace

WorkerChannel::WorkerChannel(Loop& loop, Fd socket, Events events)
    : loop_(loop), events_(std::move(events)), socket_(std::move(socket)) {}

WorkerChannel::~WorkerChannel() { fail_all("closed"); }

void WorkerChannel::start() {
  watch_ = loop_.on_readable(socket_.get(), [weak = weak_from_this()] {
    if (auto self = weak.lock()) self->on_readable();
  });
}

void WorkerChannel::ask(json::object request, Fd passed, std::chrono::milliseconds deadline,
                        Answer answer) {
  const auto until = Clock::now() + deadline;
  std::uint64_t id = 0;
  int socket = -1;
  {
    const std::lock_guard lock(mutex_);
    if (!closed_) {
      id = next_id_++;
      socket = socket_.get();
      Pending& pending = pending_[id];
      pending.answer = std::move(answer);
      pending.deadline = loop_.after(deadline, [weak = weak_from_this(), id] {
        if (auto self = weak.lock())
          self->settle(id, fail(Code::timed_out, "the firewall worker does not answer"));
      });
    }
  }
  if (id == 0) {
    loop_.post([answer = std::move(answer)] {
      answer(fail(Code::unavailable, "the firewall worker is gone"));
    });
    return;
  }
  request["id"] = id;
  const std::string frame = control::render_frame(request);
  const std::lock_guard write_lock(write_mutex_);
  if (Result<> sent = send_frame(socket, frame, passed.get(), until); !sent) {
    loop_.post([self = shared_from_this(), error = sent.error()] {
      self->fail_all(
          error.message);  // part of a frame may be out: the stream is of no use any more
      self->close();
    });
  }
}

void WorkerChannel::close() {
  watch_.reset();
  fail_all("closed");
}

void WorkerChannel::on_readable() {
  char chunk[65536];
  // A worker that never stops talking does not keep the loop from everybody else.
  for (int round = 0; round < kRounds; ++round) {
    const ssize_t size = ::recv(socket_.get(), chunk, sizeof chunk, MSG_DONTWAIT);
    if (size > 0) {
      received_.append(chunk, static_cast<std::size_t>(size));
      if (!take_frames()) return hung_up();
      continue;
    }
    if (size < 0 && (errno == EAGAIN || errno == EINTR)) return;
    return hung_up();
  }
}

void WorkerChannel::hung_up() {
  watch_.reset();
  fail_all("the firewall worker is gone");
  if (events_.closed) events_.closed();
}

bool WorkerChannel::take_frames() {
  while (true) {
    auto frame = control::parse_frame(as_bytes(received_));
    if (!frame) return frame.error() == ParseStop::need_more;
    received_.erase(0, frame->consumed);
    if (frame->body.contains("event")) {
      if (events_.event) events_.event(frame->body);
      continue;
    }
    const json::value* id = frame->body.if_contains("id");
    std::uint64_t number = 0;
    if (id != nullptr && id->is_uint64()) number = id->get_uint64();
    if (id != nullptr && id->is_int64() && id->get_int64() > 0)
      number = static_cast<std::uint64_t>(id->get_int64());
    if (number == 0) return false;
    settle(number, answer_of(std::move(frame->body)));
  }
}

void WorkerChannel::settle(std::uint64_t id, Result<json::object> result) {
  Pending pending;
  {
    const std::lock_guard lock(mutex_);
    const auto found = pending_.find(id);
    if (found == pending_.end()) return;  // its deadline passed before
    pending = std::move(found->second);
    pending_.erase(found);
  }
  pending.answer(std::move(result));
}

void WorkerChannel::fail_all(std::string_view why) {
  std::map<std::uint64_t, Pending> pending;
  {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    pending.swap(pending_);
  }
  for (auto& [id, request] : pending) {
    loop_.post([answer = std::move(request.answer), message = std::string(why)] {
      answer(fail(Code::unavailable, "firewall worker: " + message));
    });
  }
}

}  // namespace sallyport::sandbox
