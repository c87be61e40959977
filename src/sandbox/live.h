// SPDX-License-Identifier: Apache-2.0
// A sandbox that has, or is about to have, something in the kernel. Only the operation that runs on
// `serial` touches the plain fields; `agent` and `state` are read by others under the mutex.
#pragma once

#include <memory>
#include <mutex>
#include <string>

#include "sandbox/agent.h"
#include "sandbox/driver.h"
#include "sandbox/gatehouse.h"
#include "sandbox/loop.h"
#include "sandbox/process_id.h"
#include "sandbox/state.h"
#include "store/store.h"

namespace sallyport::sandbox {

struct Live {
  Live(Loop& loop, store::SessionRecord session)
      : record(std::move(session)), serial(std::make_shared<Serial>(loop)) {}

  const std::string& id() const { return record.id; }

  store::SessionRecord record;
  const std::shared_ptr<Serial> serial;
  std::shared_ptr<Gatehouse> gatehouse;
  DriverSpec driver;
  ProcessId init;
  Fd init_fd;
  Loop::Handle init_watch;
  Loop::Handle timeout;
  Loop::Handle revive;
  Loop::Handle retry;

  void set_agent(std::shared_ptr<Agent> agent) {
    const std::lock_guard lock(mutex_);
    agent_ = std::move(agent);
  }
  [[nodiscard]] std::shared_ptr<Agent> agent() const {
    const std::lock_guard lock(mutex_);
    return agent_;
  }

 private:
  mutable std::mutex mutex_;
  std::shared_ptr<Agent> agent_;
};

}  // namespace sallyport::sandbox
