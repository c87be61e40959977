// SPDX-License-Identifier: Apache-2.0
// The firewall worker of one sandbox as the supervisor sees it: a process that answers the control
// protocol (firewall/control.h). A door: worker_process.h starts real ones, tests use one in
// memory.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/fd.h"
#include "base/json.h"
#include "base/result.h"
#include "sandbox/process_id.h"

namespace sallyport::sandbox {

struct WorkerSpec {
  std::string id;           // session id
  unsigned uid = 0;         // user and group the worker runs as, its own
  std::string listen_path;  // unix socket where a later daemon finds it; made by the launcher, 0600
  std::uint64_t log_bytes = 0;
};

class Worker {
 public:
  using Answer = std::function<void(Result<json::object>)>;
  virtual ~Worker() = default;  // closes the channel; the process lives on
  [[nodiscard]] virtual ProcessId process() const = 0;
  // Sends one request (without "id"), with a descriptor if given. The answer comes on the loop,
  // exactly once: the "ok" object, the worker's error, Code::timed_out, or Code::unavailable when
  // the channel is gone.
  virtual void ask(json::object request, Fd passed, std::chrono::milliseconds deadline,
                   Answer answer) = 0;
  virtual void kill() = 0;  // SIGKILL, at once, idempotent; on_exit follows
};

struct WorkerEvents {            // on the loop
  std::function<void()> exited;  // once; the process is gone (and reaped, if it was our child)
  std::function<void()> log_full;
};

class WorkerLauncher {
 public:
  virtual ~WorkerLauncher() = default;
  // `sockets` are host::open_worker_sockets(), `log` the egress log. Blocks until the process
  // exists.
  [[nodiscard]] virtual Result<std::shared_ptr<Worker>> launch(const WorkerSpec& spec,
                                                               std::vector<Fd> sockets, Fd log,
                                                               WorkerEvents events) = 0;
  // Connects to a worker that a former daemon started, if it still is that process.
  [[nodiscard]] virtual Result<std::shared_ptr<Worker>> adopt(const WorkerSpec& spec,
                                                              ProcessId process,
                                                              WorkerEvents events) = 0;
  // KILLs the worker of this sandbox, whoever started it, and returns when it is gone. Idempotent.
  [[nodiscard]] virtual Result<> end(const WorkerSpec& spec) = 0;
  // The same for every process of a worker uid that is not in `keep_uids`.
  [[nodiscard]] virtual Result<> kill_strays(const std::set<unsigned>& keep_uids) = 0;
};

// For code that runs on the pool: asks and waits. Never call it on the loop.
[[nodiscard]] Result<json::object> ask_and_wait(Worker& worker, json::object request,
                                                std::chrono::milliseconds deadline,
                                                Fd passed = Fd());

}  // namespace sallyport::sandbox
