// SPDX-License-Identifier: Apache-2.0
// The sandbox-agent: routes of guest/protocol.h over an HttpServer, the table of processes, reaping
// and shutdown.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>

#include "guest/http_server.h"
#include "guest/loop.h"
#include "guest/process.h"
#include "guest/start_request.h"

namespace sallyport::guest {

class Agent {
 public:
  Agent(Loop& loop, Fd listener, Fd signals);

  void shut_down(std::chrono::milliseconds grace);

 private:
  void serve(Request request, const Respond& respond);
  void start(const Request& request, const Respond& respond);
  void launch(const StartRequest& wanted, Plan plan, const Respond& respond);
  void kill(const Request& request, pid_t pid, const Respond& respond);
  [[nodiscard]] std::shared_ptr<Process> find(pid_t pid) const;
  void signalled();
  void reap();
  void finish_when_empty();

  Loop& loop_;
  Fd signals_;
  std::map<pid_t, std::shared_ptr<Process>>
      processes_;  // by keeper, which is ours and so cannot be reused unseen
  bool shutting_down_ = false;
  HttpServer server_;
};

}  // namespace sallyport::guest
