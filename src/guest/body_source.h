// SPDX-License-Identifier: Apache-2.0
// An answer's body that is produced while it is sent. The connection pulls; the source wakes it
// when there is more.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

namespace sallyport::guest {

class BodySource {
 public:
  virtual ~BodySource() = default;
  // Fills up to out.size() bytes. Returning 0 with end false means: nothing now, wake() will be
  // called.
  virtual std::size_t read(std::span<std::uint8_t> out, bool& end) = 0;
  // The peer does not want the rest: no read follows.
  virtual void abandoned() = 0;

  void on_wake(std::function<void()> wake) { wake_ = std::move(wake); }

 protected:
  void wake() {
    if (wake_) wake_();
  }

 private:
  std::function<void()> wake_;
};

}  // namespace sallyport::guest
