// SPDX-License-Identifier: Apache-2.0
// A value that must not be seen: not copyable by accident, not printable, wiped when it goes (I3).
// Whoever needs the bytes says reveal(), which is what a reviewer greps for.
#pragma once

#include <string>
#include <string_view>

namespace sallyport {

class Secret {
 public:
  Secret() = default;
  explicit Secret(std::string_view value) : value_(value) {}
  Secret(Secret&& other) noexcept;
  Secret& operator=(Secret&& other) noexcept;
  Secret(const Secret&) = delete;
  Secret& operator=(const Secret&) = delete;
  ~Secret();

  [[nodiscard]] Secret clone() const { return Secret(value_); }
  [[nodiscard]] std::string_view reveal() const { return value_; }
  [[nodiscard]] bool empty() const { return value_.empty(); }

 private:
  void wipe();
  std::string value_;
};

}  // namespace sallyport
