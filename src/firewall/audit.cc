// SPDX-License-Identifier: Apache-2.0
// System calls: write, fstat.
#include "firewall/audit.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <utility>

namespace sallyport::firewall {

namespace {

// The length of the well-formed UTF-8 sequence at the front, or 0 (RFC 3629: no overlong forms, no
// surrogates).
std::size_t utf8_length(std::string_view text) {
  const auto byte = [&](std::size_t i) {
    return i < text.size() ? static_cast<unsigned char>(text[i]) : 0U;
  };
  const auto tail = [&](std::size_t i) { return (byte(i) & 0xC0U) == 0x80U; };
  const unsigned first = byte(0);
  if (first < 0x80) return 1;
  if (first >= 0xC2 && first <= 0xDF) return tail(1) ? 2 : 0;
  if (first >= 0xE0 && first <= 0xEF) {
    if (!tail(1) || !tail(2)) return 0;
    if (first == 0xE0 && byte(1) < 0xA0) return 0;
    if (first == 0xED && byte(1) > 0x9F) return 0;
    return 3;
  }
  if (first >= 0xF0 && first <= 0xF4) {
    if (!tail(1) || !tail(2) || !tail(3)) return 0;
    if (first == 0xF0 && byte(1) < 0x90) return 0;
    if (first == 0xF4 && byte(1) > 0x8F) return 0;
    return 4;
  }
  return 0;
}

void append_string(std::string& out, std::string_view text) {
  const auto plain = [](unsigned char c) { return c >= 0x20 && c < 0x7F && c != '"' && c != '\\'; };
  out += '"';
  if (std::ranges::all_of(text, plain)) {
    out += text;
    out += '"';
    return;
  }
  while (!text.empty()) {
    const unsigned char c = static_cast<unsigned char>(text.front());
    const std::size_t length = utf8_length(text);
    if (length == 0) {
      out += "\\ufffd";
    } else if (c == '"' || c == '\\') {
      out += '\\';
      out += static_cast<char>(c);
    } else if (c < 0x20 || c == 0x7F) {
      fmt::format_to(std::back_inserter(out), "\\u{:04x}", c);
    } else {
      out += text.substr(0, length);
    }
    text.remove_prefix(length == 0 ? 1 : length);
  }
  out += '"';
}

void append_number(std::string& out, std::uint64_t number) {
  const fmt::format_int text(number);
  out.append(text.data(), text.size());
}

void append_endpoint(std::string& out, const std::optional<Endpoint>& endpoint) {
  if (!endpoint) {
    out += "null";
    return;
  }
  const bool v4 = endpoint->address.is_v4();
  const bool brackets = !v4 && endpoint->port != 0;
  out += brackets ? "\"[" : "\"";
  if (v4) {
    const auto& raw = endpoint->address.raw();
    for (std::size_t i = 12; i < raw.size(); ++i) {
      if (i > 12) out += '.';
      append_number(out, raw[i]);
    }
  } else {
    out += endpoint->address.to_string();
  }
  if (brackets) out += ']';
  if (endpoint->port != 0) {
    out += ':';
    append_number(out, endpoint->port);
  }
  out += '"';
}

// "2026-11-30T22:48:05.123Z". The part down to the second is formatted once per second.
void append_time(std::string& out, std::chrono::system_clock::time_point time) {
  using namespace std::chrono;
  const auto since = duration_cast<milliseconds>(time.time_since_epoch()).count();
  static thread_local std::int64_t formatted = -1;
  static thread_local std::string text;
  if (const std::int64_t second = since / 1000; second != formatted) {
    text = fmt::format("{:%Y-%m-%dT%H:%M:%S}", fmt::gmtime(static_cast<std::time_t>(second)));
    formatted = second;
  }
  out += text;
  const auto ms = static_cast<unsigned>(since % 1000);
  const std::array<char, 5> tail{'.', static_cast<char>('0' + ms / 100),
                                 static_cast<char>('0' + ms / 10 % 10),
                                 static_cast<char>('0' + ms % 10), 'Z'};
  out.append(tail.data(), tail.size());
}

}  // namespace

void append_line(std::string& out, std::string_view sandbox,
                 std::chrono::system_clock::time_point time, const AuditRecord& record) {
  out += R"({"v":1,"time":")";
  append_time(out, time);
  out += R"(","sandbox":)";
  append_string(out, sandbox);
  out += R"(,"policy":)";
  append_number(out, record.policy_version);
  out += R"(,"protocol":)";
  append_string(out, record.protocol);
  out += R"(,"name":)";
  if (record.name)
    append_string(out, *record.name);
  else
    out += "null";
  out += R"(,"destination":)";
  append_endpoint(out, record.destination);
  out += R"(,"dialled":)";
  append_endpoint(out, record.dialled);
  out += record.verdict == policy::Access::allow ? R"(,"verdict":"allow","reason":)"
                                                 : R"(,"verdict":"deny","reason":)";
  append_string(out, record.reason);
  out += R"(,"entry":)";
  append_string(out, record.entry);
  out += R"(,"bytes_up":)";
  append_number(out, record.bytes_up);
  out += R"(,"bytes_down":)";
  append_number(out, record.bytes_down);
  out += R"(,"duration_ms":)";
  append_number(
      out, static_cast<std::uint64_t>(record.duration.count() < 0 ? 0 : record.duration.count()));
  out += R"(,"via":)";
  append_string(out, record.via);
  if (!record.detail.empty()) {
    out += R"(,"detail":)";
    append_string(out, record.detail);
  }
  out += "}\n";
}

void Audit::limit(std::uint64_t bytes, OnFull on_full) {
  limit_ = bytes;
  on_full_ = std::move(on_full);
}

void Audit::rotate(Fd log) {
  flush();
  log_ = std::move(log);
  struct stat status{};
  const bool file = ::fstat(log_.get(), &status) == 0 && S_ISREG(status.st_mode);
  bytes_ = file ? static_cast<std::uint64_t>(status.st_size) : 0;
  told_full_ = false;
}

void Audit::write(const AuditRecord& record) noexcept {
  if (!log_ || (limit_ > 0 && bytes_ >= 2 * limit_)) {
    ++dropped_;
    return;
  }
  const std::size_t before = pending_.size();
  try {
    append_line(pending_, sandbox_, std::chrono::system_clock::now(), record);
    ++pending_lines_;
    if (!schedule_ || pending_.size() >= kMaxPending)
      flush();
    else if (before == 0)
      schedule_();
  } catch (...) {  // out of memory: the line is lost, the firewall is not
    pending_.resize(before);
    ++dropped_;
  }
}

void Audit::flush() noexcept {
  if (pending_.empty()) return;
  const ssize_t written = ::write(log_.get(), pending_.data(), pending_.size());
  // A write that stops in the middle (disk full, file size limit) leaves a broken last line; the
  // count says so.
  const bool whole = written == static_cast<ssize_t>(pending_.size());
  (whole ? lines_ : dropped_) += pending_lines_;
  if (written > 0) bytes_ += static_cast<std::uint64_t>(written);
  pending_.clear();
  pending_lines_ = 0;
  if (limit_ == 0 || bytes_ < limit_ || !on_full_ || std::exchange(told_full_, true)) return;
  try {
    on_full_(bytes_);
  } catch (...) {  // told again by the next rotation's log
  }
}

}  // namespace sallyport::firewall
