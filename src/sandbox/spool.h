// SPDX-License-Identifier: Apache-2.0
// The output of one command: written once, read from the beginning by any number of readers, each
// at its own pace. It lies in an unlinked file, so memory does not grow with what a guest prints
// and nothing survives the daemon.
//
// A command nobody reads never blocks: only the last bytes are kept (kMostKept at the
// most), older ones are freed, and a reader that comes later is told what it missed. A reader that
// is there is never overrun: while the slowest is more than kAhead behind, full() says so, and the
// command waits as it would for a slow pipe. Belongs to the loop's thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "base/fd.h"
#include "base/result.h"
#include "sandbox/agent.h"

namespace sallyport::sandbox {

class Spool {
 public:
  static constexpr std::uint64_t kMostKept = 64U << 20;
  static constexpr std::uint64_t kLeastKept = 256U << 10;
  static constexpr std::uint64_t kAhead = 1U << 20;
  static constexpr std::size_t kChunk = 65536;

  struct Chunk {
    Output stream;
    std::string bytes;
  };

  // One reader's place. `wake` is called whenever there may be more to read; it must not call back
  // into the spool.
  class Reader {
   public:
    Reader(std::shared_ptr<Spool> spool, std::function<void()> wake);
    Reader(const Reader&) = delete;
    Reader& operator=(const Reader&) = delete;
    ~Reader();
    // The next chunk, or nothing: then either more will come (wake) or ended() holds.
    [[nodiscard]] Result<std::optional<Chunk>> next();
    void skip();  // to the end, for who only waits for it
    [[nodiscard]] bool ended() const;
    [[nodiscard]] bool missed() const {
      return missed_;
    }  // output was freed before this reader came

   private:
    friend class Spool;
    std::shared_ptr<Spool> spool_;
    std::function<void()> wake_;
    std::uint64_t at_ = 0;
    bool missed_ = false;
  };

  // `drained` is called when full() ceases to hold.
  [[nodiscard]] static Result<std::shared_ptr<Spool>> open(const std::string& directory);

  void set_drained(std::function<void()> drained) { drained_ = std::move(drained); }
  [[nodiscard]] Result<> append(Output stream, Bytes bytes);
  void end();  // no more output
  // How much of what has been read, or has no reader, stays. The owner shares a budget out among
  // many.
  void set_kept(std::uint64_t bytes);
  [[nodiscard]] bool full() const;

 private:
  explicit Spool(Fd file) : file_(std::move(file)) {}
  [[nodiscard]] std::uint64_t slowest() const;
  void free_old();
  void reader_moved();
  void wake_all();

  Fd file_;
  std::uint64_t kept_ = kMostKept;
  std::uint64_t begin_ = 0;  // first offset still kept, on a record border
  std::uint64_t end_ = 0;
  bool ended_ = false;
  std::set<Reader*> readers_;
  std::function<void()> drained_;
  bool was_full_ = false;
};

}  // namespace sallyport::sandbox
