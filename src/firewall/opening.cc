// SPDX-License-Identifier: Apache-2.0
// System calls: recvfrom, sendto.
#include "firewall/opening.h"

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "firewall/refusal.h"

namespace sallyport::firewall {

namespace {
constexpr std::size_t kRead = 16U << 10;
}

net::Task<Opening> OpeningReader::run() {
  net::Timer timer(bell_);
  const net::Clock::time_point begun = net::Clock::now();
  const net::Clock::time_point deadline = begun + limits_.deadline;
  while (true) {
    if (bell_.cancelled()) {
      opening_.kind = Opening::Kind::cancelled;
      break;
    }
    if (client_.readable()) {
      if (!read_some()) break;
      if (classify()) break;
      continue;
    }
    const net::Clock::time_point now = net::Clock::now();
    const bool nothing_yet = opening_.bytes.empty() && stage_ == Stage::first;
    const net::Clock::time_point until =
        !patient_ && nothing_yet ? begun + limits_.grace : deadline;
    if (now >= until) {
      if (!patient_ && nothing_yet)
        opening_.kind = Opening::Kind::silent;
      else if (!patient_ && stage_ == Stage::first)
        opening_.kind = Opening::Kind::plain;
      else
        opening_.kind = Opening::Kind::late;
      break;
    }
    if (!client_.watched() && !client_.watch(bell_)) break;
    if (!timer.running()) timer.start(until - now);
    co_await bell_.wait();
  }
  co_return std::move(opening_);
}

bool OpeningReader::read_some() {
  // Shared by all: between here and the copy below nobody else runs.
  static thread_local std::array<std::uint8_t, kRead> scratch;
  const ssize_t got = ::recv(client_.fd(), scratch.data(), scratch.size(), 0);
  if (got < 0 && errno == EINTR) return true;
  if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
    client_.not_readable();
    return true;
  }
  if (got <= 0) {
    // A client that finished without being understood: nothing more will come to understand it by.
    const bool may_pass = got == 0 && !patient_ && stage_ == Stage::first;
    opening_.kind = may_pass ? Opening::Kind::plain : Opening::Kind::closed;
    return false;
  }
  const auto count = static_cast<std::size_t>(got);
  if (!budget_.take(count)) {
    opening_.kind = Opening::Kind::full;
    return false;
  }
  opening_.bytes.insert(opening_.bytes.end(), scratch.begin(), scratch.begin() + got);
  if (count < scratch.size()) client_.not_readable();
  return true;
}

bool OpeningReader::classify() {
  if (opening_.bytes.empty()) return false;
  if (stage_ == Stage::first) {
    const Bytes bytes(opening_.bytes);
    const auto tls = tls::looks_like_tls(bytes);
    const auto postgres = postgres::looks_like_postgres(bytes);
    if (tls == tls::FirstBytes::tls) {
      opening_.protocol = policy::Protocol::tls;
      stage_ = Stage::hello;
    } else if (postgres == postgres::FirstBytes::postgres) {
      stage_ = Stage::negotiation;
    } else if (tls == tls::FirstBytes::need_more || postgres == postgres::FirstBytes::need_more) {
      return false;
    } else {
      return done(looks_like_http(bytes) ? Opening::Kind::http : Opening::Kind::plain);
    }
  }
  if (stage_ == Stage::negotiation && negotiate()) return true;
  return stage_ == Stage::hello && !opening_.bytes.empty() && read_hello();
}

// Answers until the client goes on with TLS or in clear.
bool OpeningReader::negotiate() {
  while (stage_ == Stage::negotiation) {
    const postgres::Step step = negotiation_.feed(opening_.bytes);
    opening_.bytes.erase(opening_.bytes.begin(),
                         opening_.bytes.begin() + static_cast<std::ptrdiff_t>(step.consumed));
    budget_.give(step.consumed);
    switch (step.action) {
      case postgres::Action::need_more:
        return false;
      case postgres::Action::plaintext:
      case postgres::Action::cancel:
        return done(Opening::Kind::postgres_clear);
      case postgres::Action::refuse:
        opening_.why = step.why;
        return done(Opening::Kind::malformed);
      case postgres::Action::answer_no:
      case postgres::Action::answer_yes:
        break;
    }
    const bool yes = step.action == postgres::Action::answer_yes;
    if (::send(client_.fd(), yes ? "S" : "N", 1, MSG_NOSIGNAL) != 1)
      return done(Opening::Kind::closed);
    if (yes) {
      opening_.protocol = policy::Protocol::postgres;
      stage_ = Stage::hello;
    }
  }
  return false;
}

bool OpeningReader::read_hello() {
  auto hello = hello_.read(opening_.bytes);
  if (hello) {
    opening_.name = std::move(hello->server_name);
    opening_.alert_version = hello->alert_version;
    return done(Opening::Kind::hello);
  }
  if (hello.error().stop == ParseStop::need_more) return false;
  opening_.alert = hello.error().alert;
  opening_.why = hello.error().why;
  return done(Opening::Kind::malformed);
}

}  // namespace sallyport::firewall
