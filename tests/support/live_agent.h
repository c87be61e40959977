// SPDX-License-Identifier: Apache-2.0
// A sandbox-agent as an ordinary child process (no container) and a client on it, with verbs for
// tests.
#pragma once

#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/use_future.hpp>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/fd.h"
#include "driver/agent_client.h"
#include "guest/protocol.h"

namespace sallyport::test {

struct Ran {
  int pid = 0;
  std::string out = {};
  std::string err = {};
  driver::CommandExit exit = {};
  std::string error = {};  // not empty: it did not start, or the stream broke
  Code code = Code::internal;
};

// Runs an awaitable to its end on this thread.
template <class T>
T await_on(boost::asio::io_context& context, boost::asio::awaitable<T> work) {
  auto done = boost::asio::co_spawn(context, std::move(work), boost::asio::use_future);
  context.restart();
  while (done.wait_for(std::chrono::seconds(0)) != std::future_status::ready) context.run_one();
  return done.get();
}

inline boost::asio::awaitable<Ran> collect(driver::AgentCommand& command) {
  Ran ran{.pid = command.pid()};
  for (;;) {
    auto event = co_await command.next();
    if (!event) {
      ran.error = event.error().message;
      ran.code = event.error().code;
      co_return ran;
    }
    if (const auto* exit = std::get_if<driver::CommandExit>(&*event)) {
      ran.exit = *exit;
      co_return ran;
    }
    const auto& output = std::get<driver::CommandOutput>(*event);
    (output.stream == driver::CommandOutput::Stream::out ? ran.out : ran.err) += output.bytes;
  }
}

inline boost::asio::awaitable<Ran> start_and_collect(driver::AgentClient& client,
                                                     guest::StartRequest request) {
  auto command = co_await client.start(std::move(request));
  if (!command) co_return Ran{.error = command.error().message, .code = command.error().code};
  auto& running = **command;
  co_return co_await collect(running);
}

class LiveAgent {
 public:
  explicit LiveAgent(const std::string& program) {
    std::string pattern = "/tmp/sallyport-agent-XXXXXX";
    CHECK(::mkdtemp(pattern.data()) != nullptr);
    folder_ = pattern;
    const Fd listener(::socket(AF_UNIX, SOCK_STREAM, 0));
    sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
    socket_path().copy(address.sun_path, sizeof address.sun_path - 1);
    CHECK(::bind(listener.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
    CHECK(::listen(listener.get(), 16) == 0);
    pid_ = ::fork();
    if (pid_ == 0) {
      if (listener.get() == guest::kAgentListenFd) {
        // already there, without CLOEXEC
      } else {
        ::dup2(listener.get(), guest::kAgentListenFd);
      }
      ::execl(program.c_str(), program.c_str(), nullptr);
      ::_exit(127);
    }
    connect();
  }
  ~LiveAgent() {
    client.reset();
    if (pid_ > 0) {
      ::kill(pid_, SIGTERM);
      ::waitpid(pid_, nullptr, 0);
    }
    ::unlink(socket_path().c_str());
    ::rmdir(folder_.c_str());
  }
  LiveAgent(const LiveAgent&) = delete;
  LiveAgent& operator=(const LiveAgent&) = delete;

  [[nodiscard]] std::string socket_path() const { return folder_ + "/agent.sock"; }
  [[nodiscard]] int pid() const { return pid_; }

  void connect() {
    auto connected = await(driver::AgentClient::connect(socket_path(), std::chrono::seconds(20)));
    CHECK(connected.has_value());
    client = std::move(*connected);
  }
  template <class T>
  T await(boost::asio::awaitable<T> work) {
    return await_on(context, std::move(work));
  }
  Ran run(guest::StartRequest request) {
    return await(start_and_collect(*client, std::move(request)));
  }
  int wait_for_end() {
    int status = 0;
    ::waitpid(std::exchange(pid_, 0), &status, 0);
    return status;
  }

  boost::asio::io_context context;
  std::unique_ptr<driver::AgentClient> client;

 private:
  std::string folder_;
  int pid_ = 0;
};

}  // namespace sallyport::test
