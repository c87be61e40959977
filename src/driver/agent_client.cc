// SPDX-License-Identifier: Apache-2.0
#include "driver/agent_client.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <optional>
#include <utility>

#include "driver/agent_answers.h"
#include "driver/agent_link.h"
#include "driver/quiet_socket.h"
#include "guest/protocol.h"

namespace sallyport::driver {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr milliseconds kAnswerLimit{5000};
constexpr milliseconds kStartLimit{30'000};  // exec may wait for a slow file system
constexpr milliseconds kExitGrace{
    10'000};  // after a command's own limit; then the agent is not to be believed
constexpr auto kTuple = asio::as_tuple(asio::use_awaitable);

}  // namespace

AgentCommand::AgentCommand(std::shared_ptr<AgentLink> link, int stream, milliseconds limit)
    : link_(std::move(link)),
      stream_(stream),
      deadline_(limit.count() > 0 ? steady_clock::now() + limit + kExitGrace
                                  : steady_clock::time_point::max()) {}

AgentCommand::~AgentCommand() { link_->release(stream_); }

// The next whole record in buffered_, or why there will be none.
asio::awaitable<Result<guest::Record>> AgentCommand::record(steady_clock::time_point deadline) {
  const auto link = link_;
  for (;;) {
    buffered_.erase(0, std::exchange(taken_, 0));
    buffered_ += link->session().take_body(stream_);
    link->flush();  // the window that was given back
    const auto parsed = guest::parse_record(as_bytes(buffered_));
    if (parsed) {
      taken_ = parsed->consumed;
      co_return *parsed;
    }
    if (parsed.error() != ParseStop::need_more) co_return nonsense();
    if (link->session().ended(stream_))
      co_return fail(Code::unavailable, "the agent gave up the command");
    if (auto news = co_await link->changed(stream_, deadline); !news)
      co_return std::unexpected(news.error());
  }
}

// Nobody who sends this keeps the connection.
std::unexpected<Error> AgentCommand::nonsense() {
  link_->close();
  return fail(Code::unavailable, "the agent's record makes no sense");
}

asio::awaitable<Result<>> AgentCommand::started(steady_clock::time_point deadline) {
  const auto link = link_;
  while (link->session().status(stream_) == 0 && !link->session().ended(stream_)) {
    if (auto news = co_await link->changed(stream_, deadline); !news)
      co_return context("agent", news.error());
  }
  if (const int status = link->session().status(stream_); status != 200) {
    const auto answer = co_await link->rest_of(stream_, deadline);
    if (!answer) co_return context("agent", answer.error());
    co_return std::unexpected(read_refusal(*answer));
  }
  const auto first = co_await record(deadline);
  if (!first) co_return context("agent", first.error());
  const auto pid = read_started(*first);
  if (!pid) co_return nonsense();
  pid_ = *pid;
  co_return Result<>{};
}

asio::awaitable<Result<CommandEvent>> AgentCommand::next() {
  while (!ended_) {
    const auto got = co_await record(deadline_);
    auto event = got ? read_event(*got) : Result<CommandEvent>(std::unexpected(got.error()));
    if (got && !event) event = nonsense();
    const auto* output = event ? std::get_if<CommandOutput>(&*event) : nullptr;
    if (output != nullptr && output->bytes.empty()) continue;
    ended_ = output == nullptr;
    co_return event;
  }
  co_return fail(Code::unavailable, "the command has ended");
}

AgentClient::AgentClient(std::shared_ptr<AgentLink> link) : link_(std::move(link)) {}

AgentClient::~AgentClient() { link_->close(); }

bool AgentClient::connected() const { return link_->open(); }

asio::awaitable<Result<std::unique_ptr<AgentClient>>> AgentClient::connect(std::string socket_path,
                                                                           milliseconds limit) {
  using namespace asio::experimental::awaitable_operators;
  const auto executor = co_await asio::this_coro::executor;
  const auto deadline = steady_clock::now() + limit;
  if (socket_path.size() >= sizeof(sockaddr_un::sun_path))
    co_return fail(Code::invalid, "agent socket: path too long");
  auto quiet = quiet_unix_socket();
  if (!quiet) co_return std::unexpected(quiet.error());
  asio::local::stream_protocol::socket socket(executor, asio::local::stream_protocol(),
                                              quiet->release());
  asio::steady_timer timer(executor, deadline);
  const asio::local::stream_protocol::endpoint endpoint(socket_path);
  const auto first = co_await (socket.async_connect(endpoint, kTuple) || timer.async_wait(kTuple));
  if (first.index() == 1) co_return fail(Code::timed_out, "agent socket: nobody accepted in time");
  if (const auto error = std::get<0>(std::get<0>(first)); error) {
    co_return fail(Code::unavailable, "agent socket: " + error.message());
  }
  auto link = std::make_shared<AgentLink>(std::move(socket));
  link->start();
  std::unique_ptr<AgentClient> client(new AgentClient(link));
  const auto answer = co_await link->ask("GET", "/v1/health", "", deadline);
  if (!answer) co_return context("agent", answer.error());
  if (auto health = read_health(*answer); !health) co_return context("agent", health.error());
  co_return client;
}

asio::awaitable<Result<AgentHealth>> AgentClient::health() {
  const auto link = link_;
  const auto answer =
      co_await link->ask("GET", "/v1/health", "", steady_clock::now() + kAnswerLimit);
  if (!answer) co_return context("agent", answer.error());
  co_return read_health(*answer);
}

asio::awaitable<Result<std::unique_ptr<AgentCommand>>> AgentClient::start(
    guest::StartRequest request) {
  const auto link = link_;
  const milliseconds limit(request.timeout_ms);
  const auto deadline = steady_clock::now() + kStartLimit;
  std::string body = guest::render_start_request(request);
  if (body.size() > guest::kMaxStartRequest)
    co_return fail(Code::invalid, "arguments and environment are too large");
  const auto stream = link->request("POST", "/v1/processes", std::move(body));
  if (!stream) co_return context("agent", stream.error());
  // Owns the stream from here on, whatever happens.
  auto command = std::make_unique<AgentCommand>(link, *stream, limit);
  if (auto started = co_await command->started(deadline); !started)
    co_return std::unexpected(started.error());
  co_return command;
}

asio::awaitable<Result<>> AgentClient::kill(int pid, int signal) {
  const auto link = link_;
  const auto answer = co_await link->ask("POST", fmt::format("/v1/processes/{}/kill", pid),
                                         fmt::format(R"({{"signal":{}}})", signal),
                                         steady_clock::now() + kAnswerLimit);
  if (!answer) co_return context("agent", answer.error());
  if (answer->status != 200) co_return std::unexpected(read_refusal(*answer));
  co_return Result<>{};
}

asio::awaitable<Result<>> AgentClient::shutdown(milliseconds grace) {
  const auto link = link_;
  const auto answer =
      co_await link->ask("POST", "/v1/shutdown", fmt::format(R"({{"grace_ms":{}}})", grace.count()),
                         steady_clock::now() + kAnswerLimit);
  if (!answer) co_return context("agent", answer.error());
  if (answer->status != 200) co_return std::unexpected(read_refusal(*answer));
  co_return Result<>{};
}

}  // namespace sallyport::driver
