// SPDX-License-Identifier: Apache-2.0
// What the daemon needs of the sandbox-agent (guest/protocol.h), as a door: the real one speaks
// HTTP/2 over the agent's socket (driver/agent_client), tests use an in-memory one.
//
// Calls may come from any thread and return at once. Callbacks run on the daemon's loop, one at a
// time, each result callback exactly once, also when the connection is lost or the deadline passes.
// What an agent says is hostile: implementations bound and check it before it gets here.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"

namespace sallyport::sandbox {

struct ProcessRequest {
  std::string command;  // executable, no shell
  std::vector<std::string> args;
  std::string cwd;                         // absolute or relative to the user's home; empty: home
  std::map<std::string, std::string> env;  // complete
  std::string user = "ubuntu";             // or "root"
  std::chrono::milliseconds timeout{0};    // 0: none
};

struct ProcessExit {
  int code = 0;    // 0-255 when signal is 0
  int signal = 0;  // or the signal that ended it
  bool timed_out = false;
};

enum class Output { out, err };

struct ProcessEvents {
  std::function<void(int pid)> started;  // once, before any output
  std::function<void(Output, Bytes)> output;
  std::function<void(ProcessExit)> exited;  // the last one, unless failed
  // The last one. Before `started`: nothing runs (Code::not_found: no such executable). After it:
  // the stream was lost.
  std::function<void(Error)> failed;
};

// One running command's stream. Dropping it stops the callbacks and leaves the command running.
class Process {
 public:
  virtual ~Process() = default;
  virtual void
  pause() = 0;  // no more output callbacks soon; the command blocks once its pipes are full
  virtual void resume() = 0;
};

class Agent {
 public:
  using Done = std::function<void(Result<>)>;
  virtual ~Agent() = default;  // closes the connection
  // Connects if need be, trying again until the deadline: a booting guest does not listen yet.
  virtual void health(std::chrono::milliseconds deadline, Done done) = 0;
  [[nodiscard]] virtual std::shared_ptr<Process> start(ProcessRequest request,
                                                       ProcessEvents events) = 0;
  virtual void kill(int pid, int signal, Done done) = 0;
  virtual void shutdown(std::chrono::milliseconds deadline, Done done) = 0;
};

using AgentConnector = std::function<std::shared_ptr<Agent>(const std::string& socket_path)>;

}  // namespace sallyport::sandbox
