// SPDX-License-Identifier: Apache-2.0
// One connection to a firewall worker: requests out, answers matched by id, events in between
// (firewall/control.h). The worker parses hostile bytes, so what it says is bounded and checked
// too; anything odd closes the channel, and every open request then fails with Code::unavailable.
// The channel never kills anybody.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "base/fd.h"
#include "base/json.h"
#include "base/result.h"
#include "sandbox/loop.h"

namespace sallyport::sandbox {

class WorkerChannel : public std::enable_shared_from_this<WorkerChannel> {
 public:
  using Answer = std::function<void(Result<json::object>)>;
  struct Events {  // on the loop
    std::function<void(const json::object&)> event;
    std::function<void()> closed;
  };

  WorkerChannel(Loop& loop, Fd socket, Events events);
  ~WorkerChannel();
  void start();  // after it is owned by a shared_ptr

  // From any thread. Writing may block until the deadline when the worker does not read; so call it
  // on the pool for large requests.
  void ask(json::object request, Fd passed, std::chrono::milliseconds deadline, Answer answer);
  void close();

 private:
  struct Pending {
    Answer answer;
    Loop::Handle deadline;
  };
  void on_readable();
  void hung_up();
  bool take_frames();  // false: malformed
  void settle(std::uint64_t id, Result<json::object> result);
  void fail_all(std::string_view why);

  Loop& loop_;
  Events events_;
  Loop::Handle watch_;
  std::string received_;  // on the loop only

  std::mutex write_mutex_;  // one frame at a time
  std::mutex mutex_;        // guards what follows
  Fd socket_;
  std::uint64_t next_id_ = 1;
  std::map<std::uint64_t, Pending> pending_;
  bool closed_ = false;
};

}  // namespace sallyport::sandbox
