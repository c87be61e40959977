// SPDX-License-Identifier: Apache-2.0
// Egress lines that a guest can cause as fast as it can send packets. The first of a kind is
// written at once; identical ones that follow within the window become one line with their count at
// its end. The number of kinds kept is bounded too: beyond it only the number of lines left out is
// written.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>

#include "firewall/audit.h"

namespace sallyport::firewall {

class RepeatedLines {
 public:
  static constexpr std::size_t kMaxKinds = 500;  // per window

  RepeatedLines(boost::asio::any_io_executor executor, Audit& audit,
                std::chrono::milliseconds window);
  ~RepeatedLines() { flush(); }
  RepeatedLines(const RepeatedLines&) = delete;
  RepeatedLines& operator=(const RepeatedLines&) = delete;

  // Counts one more of a kind that was written already; false if this is the first, which write()
  // is then for.
  [[nodiscard]] bool repeat(const std::string& key);
  // `key` says what counts as identical. The record's reason may be short-lived text here.
  void write(const std::string& key, const AuditRecord& record);
  void flush();  // writes the counted repeats now and forgets every kind

 private:
  struct Kind {
    AuditRecord record;
    std::string reason;
    std::uint64_t repeats = 0;
  };
  void write_repeats(Kind& kind, std::uint64_t repeats);

  Audit& audit_;
  std::chrono::milliseconds window_;
  boost::asio::steady_timer timer_;
  std::unordered_map<std::string, Kind> kinds_;
  std::unique_ptr<Kind> overflow_;
  bool armed_ = false;
  std::shared_ptr<char> alive_ =
      std::make_shared<char>();  // a handler that was queued already outlives us
};

}  // namespace sallyport::firewall
