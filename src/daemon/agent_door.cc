// SPDX-License-Identifier: Apache-2.0
#include "daemon/agent_door.h"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "base/log.h"
#include "driver/agent_client.h"

namespace sallyport::daemon {
namespace {

namespace asio = boost::asio;
using sandbox::Agent;
using std::chrono::milliseconds;

constexpr milliseconds kReconnectLimit{5'000};

// The flow control of one command's stream, shared by its coroutine and whoever holds the Process.
struct Flow {
  explicit Flow(asio::io_context& context) : wake(context) {}
  asio::steady_timer wake;
  bool paused = false;
  bool dropped = false;
};

class RunningProcess : public sandbox::Process {
 public:
  RunningProcess(sandbox::Loop& loop, std::shared_ptr<Flow> flow)
      : loop_(loop), flow_(std::move(flow)) {}
  // Nobody listens any more: the coroutine goes on to take the output, so that the command is not
  // held up.
  ~RunningProcess() override {
    loop_.post([flow = flow_] {
      flow->dropped = true;
      flow->wake.cancel();
    });
  }
  void pause() override {
    loop_.post([flow = flow_] { flow->paused = true; });
  }
  void resume() override {
    loop_.post([flow = flow_] {
      flow->paused = false;
      flow->wake.cancel();
    });
  }

 private:
  sandbox::Loop& loop_;
  std::shared_ptr<Flow> flow_;
};

class AgentDoor : public Agent, public std::enable_shared_from_this<AgentDoor> {
 public:
  AgentDoor(sandbox::Loop& loop, std::string socket_path)
      : loop_(loop), socket_path_(std::move(socket_path)) {}
  // The last owner may let go on a pool thread, but the client's socket belongs to the loop: closed
  // here while the loop reads from it, Asio frees its descriptor twice.
  ~AgentDoor() override {
    if (client_) loop_.post([client = std::move(client_)] {});
  }

  void health(milliseconds deadline, Done done) override {
    spawn(run_health(shared_from_this(), deadline, std::move(done)));
  }
  std::shared_ptr<sandbox::Process> start(sandbox::ProcessRequest request,
                                          sandbox::ProcessEvents events) override {
    auto flow = std::make_shared<Flow>(loop_.context());
    spawn(run_process(shared_from_this(), std::move(request), std::move(events), flow));
    return std::make_shared<RunningProcess>(loop_, std::move(flow));
  }
  void kill(int pid, int signal, Done done) override {
    spawn(run_kill(shared_from_this(), pid, signal, std::move(done)));
  }
  void shutdown(milliseconds deadline, Done done) override {
    spawn(run_shutdown(shared_from_this(), deadline, std::move(done)));
  }

 private:
  using Self = std::shared_ptr<AgentDoor>;  // each coroutine keeps the door it works for

  // Coroutines start on the loop, whichever thread asked.
  void spawn(asio::awaitable<void> work) {
    asio::co_spawn(loop_.context(), std::move(work), [](const std::exception_ptr& error) {
      if (!error) return;
      try {
        std::rethrow_exception(error);
      } catch (const std::exception& caught) {
        log::error("agent channel ended by an exception", {{"error", caught.what()}});
      }
    });
  }

  asio::awaitable<Result<std::shared_ptr<driver::AgentClient>>> client(milliseconds limit) {
    if (client_ && client_->connected()) co_return client_;
    auto fresh = co_await driver::AgentClient::connect(socket_path_, limit);
    if (!fresh) co_return std::unexpected(fresh.error());
    client_ = *std::move(fresh);
    co_return client_;
  }

  static asio::awaitable<void> run_health(Self self, milliseconds deadline, Done done) {
    auto client = co_await self->client(deadline);
    if (!client) co_return done(std::unexpected(client.error()));
    const auto health = co_await (*client)->health();
    if (!health) co_return done(std::unexpected(health.error()));
    done({});
  }

  static asio::awaitable<void> run_kill(Self self, int pid, int signal, Done done) {
    auto client = co_await self->client(kReconnectLimit);
    if (!client) co_return done(std::unexpected(client.error()));
    done(co_await (*client)->kill(pid, signal));
  }

  static asio::awaitable<void> run_shutdown(Self self, milliseconds deadline, Done done) {
    auto client = co_await self->client(kReconnectLimit);
    if (!client) co_return done(std::unexpected(client.error()));
    done(co_await (*client)->shutdown(deadline));
  }

  static asio::awaitable<void> run_process(Self self, sandbox::ProcessRequest request,
                                           sandbox::ProcessEvents events,
                                           std::shared_ptr<Flow> flow) {
    auto client = co_await self->client(kReconnectLimit);
    if (!client) co_return events.failed(client.error());
    guest::StartRequest start{.command = std::move(request.command),
                              .args = std::move(request.args),
                              .cwd = std::move(request.cwd),
                              .env = {request.env.begin(), request.env.end()},
                              .user = std::move(request.user),
                              .timeout_ms = static_cast<std::uint64_t>(request.timeout.count())};
    auto command = co_await (*client)->start(std::move(start));
    if (!command) co_return events.failed(command.error());
    events.started((*command)->pid());
    while (true) {
      while (flow->paused && !flow->dropped) {
        boost::system::error_code ignored;
        flow->wake.expires_at(asio::steady_timer::time_point::max());
        co_await flow->wake.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
      }
      auto event = co_await (*command)->next();
      if (!event) {
        if (!flow->dropped) events.failed(event.error());
        co_return;
      }
      if (const auto* exit = std::get_if<driver::CommandExit>(&*event)) {
        if (!flow->dropped) events.exited({exit->code, exit->signal, exit->timed_out});
        co_return;
      }
      const auto& output = std::get<driver::CommandOutput>(*event);
      if (flow->dropped) continue;
      events.output(output.stream == driver::CommandOutput::Stream::out ? sandbox::Output::out
                                                                        : sandbox::Output::err,
                    as_bytes(output.bytes));
    }
  }

  sandbox::Loop& loop_;
  const std::string socket_path_;
  std::shared_ptr<driver::AgentClient> client_;  // on the loop only
};

}  // namespace

sandbox::AgentConnector agent_connector(sandbox::Loop& loop) {
  return [&loop](const std::string& socket_path) -> std::shared_ptr<Agent> {
    return std::make_shared<AgentDoor>(loop, socket_path);
  };
}

}  // namespace sallyport::daemon
