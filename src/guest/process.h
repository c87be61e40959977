// SPDX-License-Identifier: Apache-2.0
// One command from spawn to the end of its last descendant: turns its pipes and its fate into the
// record stream of guest/protocol.h, enforces its time limit, and passes signals to its whole tree.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "guest/body_source.h"
#include "guest/keeper.h"
#include "guest/loop.h"
#include "guest/output_pipe.h"

namespace sallyport::guest {

class Process final : public BodySource {
 public:
  struct Events {
    std::function<void()> started;  // pid() is known, records flow
    std::function<void(Stage stage, int error)>
        failed;                  // nothing runs; no other event but `gone` follows
    std::function<void()> gone;  // nothing of it is left; the object may be dropped later
  };

  Process(Loop& loop, Spawned spawned, std::chrono::milliseconds limit, Events events);
  ~Process() override;

  [[nodiscard]] pid_t pid() const { return pid_; }
  [[nodiscard]] pid_t keeper() const { return keeper_; }
  [[nodiscard]] Loop::Clock::time_point born() const { return born_; }
  // Signals the whole tree. False when nothing of it is left.
  bool signal(int number);
  // The keeper was reaped: no descendant is left.
  void keeper_ended();

  std::size_t read(std::span<std::uint8_t> out, bool& end) override;
  void abandoned() override;

 private:
  void report_readable();
  void main_exited(int status);
  void main_lost();
  void append(Bytes bytes, bool error_stream);
  void time_out();
  void kill_all();
  void settle();

  Loop& loop_;
  const pid_t keeper_;
  const Loop::Clock::time_point born_ = Loop::Clock::now();
  Fd report_;
  pid_t pid_ = 0;
  Events events_;
  std::chrono::milliseconds limit_;
  std::optional<Loop::TimerId> limit_timer_;
  std::optional<Loop::TimerId> drain_timer_;
  std::optional<Loop::TimerId> kill_timer_;
  std::optional<Loop::TimerId> gone_timer_;

  std::string buffer_;  // records not yet sent, from sent_ on
  std::size_t sent_ = 0;
  std::string exit_record_;  // set when the command ended; goes out after the last output
  bool complete_ = false;    // the exit record is in buffer_
  bool abandoned_ = false;
  bool timed_out_ = false;
  bool keeper_ended_ = false;
  std::unique_ptr<OutputPipe> out_;
  std::unique_ptr<OutputPipe> err_;
};

}  // namespace sallyport::guest
