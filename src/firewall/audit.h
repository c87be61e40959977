// SPDX-License-Identifier: Apache-2.0
// The egress log: one JSON line per connection at its end and per denied DNS query (schema v1,
// docs/egress-log.md). Whole lines leave in one write(2) on an O_APPEND descriptor, so lines never
// mix; those of one turn of the loop leave together. Writing neither blocks nor throws: lines that
// cannot be written whole are counted and dropped, because a full disk must not stop or open the
// firewall.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "base/address.h"
#include "base/fd.h"
#include "policy/decide.h"

namespace sallyport::firewall {

struct AuditRecord {
  std::uint64_t policy_version = 0;
  std::string_view protocol = "other";  // tls, postgres, dns, tcp, udp, icmp, other
  std::optional<std::string> name;
  std::optional<Endpoint> destination;  // port 0: printed as an address alone
  std::optional<Endpoint> dialled;
  policy::Access verdict = policy::Access::deny;
  std::string_view reason;  // to_string(policy::Reason) or another code of docs/egress-log.md
  std::string entry;
  std::uint64_t bytes_up = 0;
  std::uint64_t bytes_down = 0;
  std::chrono::milliseconds duration{0};
  std::string_view via = "worker";  // or "kernel"
  std::string detail;               // a sentence, left out when empty
};

// The line with its newline, as it is written. Untrusted bytes in it are escaped, non-UTF-8 ones as
// U+FFFD.
void append_line(std::string& out, std::string_view sandbox,
                 std::chrono::system_clock::time_point time, const AuditRecord& record);

class Audit {
 public:
  using OnFull = std::function<void(std::uint64_t bytes)>;

  Audit() = default;  // nowhere yet: every line counts as dropped
  ~Audit() { flush(); }
  explicit Audit(Fd log) { rotate(std::move(log)); }

  void name_sandbox(std::string id) { sandbox_ = std::move(id); }
  // `on_full` is called once when the log has grown past `bytes`, again only after rotate(). A log
  // that nobody rotates stops growing at twice the limit.
  void limit(std::uint64_t bytes, OnFull on_full);
  void rotate(Fd log);

  // Keeps the line until flush(), which `schedule` is asked for once; without this, each line is
  // written at once.
  void collect(std::function<void()> schedule) { schedule_ = std::move(schedule); }

  void write(const AuditRecord& record) noexcept;
  void flush() noexcept;

  [[nodiscard]] std::uint64_t lines() const { return lines_; }
  [[nodiscard]] std::uint64_t dropped() const { return dropped_; }
  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }

 private:
  Fd log_;
  std::string sandbox_;
  static constexpr std::size_t kMaxPending = 32U << 10;
  std::string pending_;  // whole lines
  std::uint64_t pending_lines_ = 0;
  std::function<void()> schedule_;
  std::uint64_t limit_ = 0;  // 0: none
  OnFull on_full_;
  bool told_full_ = false;
  std::uint64_t bytes_ = 0;
  std::uint64_t lines_ = 0;
  std::uint64_t dropped_ = 0;
};

}  // namespace sallyport::firewall
