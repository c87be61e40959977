// SPDX-License-Identifier: Apache-2.0
// The supervisor's end of the agent channel (guest/protocol.h): one HTTP/2 connection to one
// sandbox-agent, used from one executor (a strand or a single-threaded io_context). Everything the
// agent says is hostile: bounded, given a deadline, and on the first malformed byte the whole
// connection is dropped and every wait on it fails with Code::unavailable.
//
// Backpressure: output that nobody takes by next() stays in the agent's pipe, never here
// (kStreamWindow per command), and a command that is not read does not hold up the others.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <chrono>
#include <memory>
#include <string>
#include <variant>

#include "base/result.h"
#include "guest/protocol.h"
#include "guest/start_request.h"

namespace sallyport::driver {

namespace asio = boost::asio;

struct AgentHealth {
  std::string version;
  int pid = 0;
};

struct CommandOutput {
  enum class Stream { out, err };
  Stream stream;
  std::string bytes;  // never empty
};
struct CommandExit {
  int code = 0;    // 0-255; 128+n after signal n, as a shell says it
  int signal = 0;  // 0: it ended by itself
  bool timed_out = false;
};
using CommandEvent = std::variant<CommandOutput, CommandExit>;

class AgentLink;

// One started process. Destroying it gives up the stream: the process lives on and its output is
// discarded in the guest.
class AgentCommand {
 public:
  AgentCommand(std::shared_ptr<AgentLink> link, int stream,
               std::chrono::milliseconds limit);  // by AgentClient::start
  ~AgentCommand();
  AgentCommand(const AgentCommand&) = delete;
  AgentCommand& operator=(const AgentCommand&) = delete;

  [[nodiscard]] int pid() const {
    return pid_;
  }  // inside the sandbox; what AgentClient::kill takes
  // Output in order, then CommandExit once, then an error. Waits without limit for a command that
  // has no timeout. One call at a time.
  [[nodiscard]] asio::awaitable<Result<CommandEvent>> next();

 private:
  friend class AgentClient;
  [[nodiscard]] asio::awaitable<Result<>> started(std::chrono::steady_clock::time_point deadline);
  [[nodiscard]] asio::awaitable<Result<guest::Record>> record(
      std::chrono::steady_clock::time_point deadline);
  [[nodiscard]] std::unexpected<Error> nonsense();

  std::shared_ptr<AgentLink> link_;
  int stream_;
  int pid_ = 0;
  std::chrono::steady_clock::time_point deadline_;
  std::string buffered_;   // at most one record and one window
  std::size_t taken_ = 0;  // of buffered_, by the last record
  bool ended_ = false;
};

class AgentClient {
 public:
  ~AgentClient();  // closes the connection; waits on it fail
  AgentClient(const AgentClient&) = delete;
  AgentClient& operator=(const AgentClient&) = delete;

  // Connects and waits for the agent's first health answer.
  [[nodiscard]] static asio::awaitable<Result<std::unique_ptr<AgentClient>>> connect(
      std::string socket_path, std::chrono::milliseconds limit);

  [[nodiscard]] asio::awaitable<Result<AgentHealth>> health();
  // Code::not_found: no such executable (`executable_not_found`); Code::invalid: refused, the
  // message says why.
  [[nodiscard]] asio::awaitable<Result<std::unique_ptr<AgentCommand>>> start(
      guest::StartRequest request);
  // Code::not_found when the process and everything it started are gone.
  [[nodiscard]] asio::awaitable<Result<>> kill(int pid, int signal);
  [[nodiscard]] asio::awaitable<Result<>> shutdown(std::chrono::milliseconds grace);
  [[nodiscard]] bool connected() const;

 private:
  explicit AgentClient(std::shared_ptr<AgentLink> link);
  std::shared_ptr<AgentLink> link_;
};

}  // namespace sallyport::driver
