// SPDX-License-Identifier: Apache-2.0
// One timer for all kinds: it starts with the first line and ends the window for everything counted
// since.
#include "firewall/repeated_lines.h"

#include <fmt/format.h>

namespace sallyport::firewall {

RepeatedLines::RepeatedLines(boost::asio::any_io_executor executor, Audit& audit,
                             std::chrono::milliseconds window)
    : audit_(audit), window_(window), timer_(std::move(executor)) {}

bool RepeatedLines::repeat(const std::string& key) {
  const auto found = kinds_.find(key);
  if (found == kinds_.end()) return false;
  ++found->second.repeats;
  return true;
}

void RepeatedLines::write(const std::string& key, const AuditRecord& record) {
  if (!armed_) {
    armed_ = true;
    timer_.expires_after(window_);
    timer_.async_wait([this, alive = std::weak_ptr(alive_)](boost::system::error_code error) {
      if (!error && !alive.expired()) flush();
    });
  }
  if (repeat(key)) return;
  if (kinds_.size() < kMaxKinds) {
    audit_.write(record);
    kinds_.emplace(key, Kind{record, std::string(record.reason), 0});
    return;
  }
  if (!overflow_) {
    overflow_ = std::make_unique<Kind>(Kind{record, std::string(record.reason), 0});
    overflow_->record.name.reset();
    overflow_->record.destination.reset();
    overflow_->record.entry.clear();
    overflow_->record.detail = "different ones, not listed one by one";
  }
  ++overflow_->repeats;
}

void RepeatedLines::write_repeats(Kind& kind, std::uint64_t repeats) {
  AuditRecord& record = kind.record;
  record.reason = kind.reason;
  if (!record.detail.empty()) record.detail += "; ";
  record.detail += fmt::format("{} more within {} ms", repeats, window_.count());
  audit_.write(record);
}

void RepeatedLines::flush() {
  armed_ = false;
  timer_.cancel();
  for (auto& [key, kind] : kinds_) {
    if (kind.repeats > 0) write_repeats(kind, kind.repeats);
  }
  kinds_.clear();
  if (overflow_) write_repeats(*overflow_, overflow_->repeats);
  overflow_.reset();
}

}  // namespace sallyport::firewall
