// SPDX-License-Identifier: Apache-2.0
// One output stream of a command as the agent reads it. A pipe never blocks its writers for want of
// a reader: when nobody wants the bytes any more they are read and dropped, and they go on
// being read for as long as some background child holds the other end.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "base/bytes.h"
#include "base/fd.h"
#include "guest/loop.h"

namespace sallyport::guest {

class OutputPipe {
 public:
  // `deliver` gets bytes; `ended` is called when no byte for deliver will follow, and
  // again when the pipe is closed() if that is later.
  OutputPipe(Loop& loop, Fd fd, std::function<void(Bytes)> deliver, std::function<void()> ended);
  ~OutputPipe();
  OutputPipe(const OutputPipe&) = delete;
  OutputPipe& operator=(const OutputPipe&) = delete;

  void pause(bool paused);  // backpressure; no effect once discarding
  // Delivers what is in the pipe at this moment and ends; what comes later is discarded.
  void finish();
  // Ends now; everything is discarded.
  void discard();
  [[nodiscard]] bool delivering() const { return delivering_; }
  // The other end is closed everywhere: nothing left to look after.
  [[nodiscard]] bool closed() const { return !fd_; }

 private:
  void readable();
  void end();

  Loop& loop_;
  Fd fd_;
  std::function<void(Bytes)> deliver_;
  std::function<void()> ended_;
  std::optional<std::size_t> left_;  // after finish(): how many bytes are still to be delivered
  bool delivering_ = true;
};

}  // namespace sallyport::guest
