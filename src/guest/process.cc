// SPDX-License-Identifier: Apache-2.0
#include "guest/process.h"

#include <signal.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "guest/process_tree.h"
#include "guest/protocol.h"

namespace sallyport::guest {
namespace {

using std::chrono::milliseconds;

constexpr std::size_t kMaxBuffered = 64U << 10;  // then the pipes wait for the supervisor
// How long after its end a command's pipes may still bring something, if others hold them (R-102).
// A child that is not waited for but already writing gets this much; what the command itself wrote
// is in the pipe already.
constexpr milliseconds kDrain{100};
constexpr milliseconds kKillAgain{20};

}  // namespace

Process::Process(Loop& loop, Spawned spawned, milliseconds limit, Events events)
    : loop_(loop),
      keeper_(spawned.keeper),
      report_(std::move(spawned.report)),
      events_(std::move(events)),
      limit_(limit),
      out_(std::make_unique<OutputPipe>(
          loop, std::move(spawned.out), [this](Bytes bytes) { append(bytes, false); },
          [this] { settle(); })),
      err_(std::make_unique<OutputPipe>(
          loop, std::move(spawned.err), [this](Bytes bytes) { append(bytes, true); },
          [this] { settle(); })) {
  // Nothing may come before the `started` record.
  out_->pause(true);
  err_->pause(true);
  loop_.watch(report_.get(), EPOLLIN, [this] { report_readable(); });
}

Process::~Process() {
  if (report_) loop_.forget(report_.get());
  for (const auto& timer : {limit_timer_, drain_timer_, kill_timer_, gone_timer_}) {
    if (timer) loop_.cancel(*timer);
  }
}

void Process::report_readable() {
  Report report{};
  const ssize_t got = ::recv(report_.get(), &report, sizeof report, 0);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (got != ssize_t(sizeof report)) return main_lost();
  switch (report.kind) {
    case Report::Kind::failed:
      loop_.forget(report_.get());
      report_.reset();
      abandoned();
      return events_.failed(Stage(report.first), report.second);
    case Report::Kind::started:
      pid_ = report.first;
      buffer_ += render_record(RecordType::started, fmt::format(R"({{"pid":{}}})", pid_));
      if (limit_.count() > 0) limit_timer_ = loop_.after(limit_, [this] { time_out(); });
      out_->pause(false);
      err_->pause(false);
      return events_.started();
    case Report::Kind::exited:
      return main_exited(report.first);
  }
}

// The keeper ended without a word about the command: root in the guest killed it. Its children are
// PID 1's now.
void Process::main_lost() {
  loop_.forget(report_.get());
  report_.reset();
  if (!exit_record_.empty()) return settle();
  if (pid_ == 0) {
    abandoned();
    return events_.failed(Stage::prepare, ECHILD);
  }
  main_exited(SIGKILL);
}

void Process::main_exited(int status) {
  if (!exit_record_.empty()) return;
  if (limit_timer_) loop_.cancel(*limit_timer_);
  limit_timer_.reset();
  const std::string fate =
      WIFSIGNALED(status)
          ? fmt::format(R"({{"signal":{},"timed_out":{}}})", WTERMSIG(status), timed_out_)
          : fmt::format(R"({{"code":{}}})", WEXITSTATUS(status));
  exit_record_ = render_record(RecordType::exit, fate);
  drain_timer_ = loop_.after(kDrain, [this] {
    drain_timer_.reset();
    out_->finish();
    err_->finish();
  });
  settle();
}

// Looks whether the last record may go out and whether anything is left at all. Called after each
// change of either.
void Process::settle() {
  if (out_ == nullptr || err_ == nullptr) return;
  if (!exit_record_.empty() && !complete_ && !out_->delivering() && !err_->delivering()) {
    if (drain_timer_) loop_.cancel(*drain_timer_);
    drain_timer_.reset();
    buffer_ += exit_record_;
    complete_ = true;
    wake();
  }
  if (keeper_ended_ && !report_ && out_->closed() && err_->closed() && !gone_timer_) {
    gone_timer_ = loop_.after(milliseconds(0),
                              [this] { events_.gone(); });  // not from inside our own handlers
  }
}

void Process::append(Bytes bytes, bool error_stream) {
  buffer_ += render_record(error_stream ? RecordType::err : RecordType::out, as_text(bytes));
  if (buffer_.size() - sent_ >= kMaxBuffered) {
    out_->pause(true);
    err_->pause(true);
  }
  wake();
}

std::size_t Process::read(std::span<std::uint8_t> out, bool& end) {
  const std::size_t count = std::min(out.size(), buffer_.size() - sent_);
  std::memcpy(out.data(), buffer_.data() + sent_, count);
  sent_ += count;
  if (sent_ == buffer_.size()) {
    buffer_.clear();
    sent_ = 0;
  } else if (sent_ >= kMaxBuffered) {
    buffer_.erase(0, sent_);
    sent_ = 0;
  }
  if (buffer_.size() - sent_ < kMaxBuffered) {
    out_->pause(false);
    err_->pause(false);
  }
  end = complete_ && buffer_.empty();
  return count;
}

void Process::abandoned() {
  abandoned_ = true;
  out_->discard();
  err_->discard();
  buffer_.clear();
  sent_ = 0;
}

bool Process::signal(int number) {
  if (keeper_ended_) return false;
  if (number == SIGKILL) {
    kill_all();
    return true;
  }
  return signal_tree(keeper_, number) > 0;
}

void Process::time_out() {
  limit_timer_.reset();
  timed_out_ = true;
  kill_all();
}

void Process::kill_all() {
  kill_timer_.reset();
  if (keeper_ended_ || kill_tree(keeper_)) return;
  kill_timer_ = loop_.after(kKillAgain, [this] { kill_all(); });
}

void Process::keeper_ended() {
  keeper_ended_ = true;
  settle();
}

}  // namespace sallyport::guest
