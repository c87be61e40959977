// SPDX-License-Identifier: Apache-2.0
// Where the time of a create goes: one debug line with the milliseconds of each named step.
#pragma once

#include <chrono>
#include <string>
#include <string_view>

#include "base/log.h"

namespace sallyport::sandbox {

class Steps {
 public:
  void done(std::string_view step) {
    const auto now = Clock::now();
    times_[step] = std::chrono::duration<double, std::milli>(now - last_).count();
    last_ = now;
  }
  void print(std::string_view what, std::string_view id) const {
    const double total = std::chrono::duration<double, std::milli>(last_ - begin_).count();
    log::debug(what, {{"sandbox", id}, {"ms", total}, {"steps", times_}});
  }

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point begin_ = Clock::now();
  Clock::time_point last_ = begin_;
  boost::json::object times_;
};

}  // namespace sallyport::sandbox
