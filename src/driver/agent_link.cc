// SPDX-License-Identifier: Apache-2.0
#include "driver/agent_link.h"

#include <array>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <exception>

namespace sallyport::driver {
namespace {

constexpr std::size_t kReadSize = 64U << 10;
constexpr std::size_t kWriteSize = 64U << 10;
constexpr std::size_t kMaxAnswer = 64U << 10;
constexpr auto kTuple = asio::as_tuple(asio::use_awaitable);

std::unexpected<Error> lost() {
  return fail(Code::unavailable, "the connection to the agent is lost");
}

}  // namespace

AgentLink::AgentLink(asio::local::stream_protocol::socket socket) : socket_(std::move(socket)) {}

void AgentLink::start() {
  // The loop owns the link; close() ends it. An exception can only be memory running out: the link
  // is of no use then.
  asio::co_spawn(socket_.get_executor(), read_loop(),
                 [self = shared_from_this()](const std::exception_ptr& failed) {
                   if (failed) self->close();
                 });
  flush();
}

void AgentLink::close() {
  boost::system::error_code ignored;
  socket_.close(ignored);
  for (const auto& [stream, timer] : waiting_) timer->cancel();
}

asio::awaitable<void> AgentLink::read_loop() {
  const auto self = shared_from_this();
  std::vector<std::uint8_t> buffer(kReadSize);
  while (socket_.is_open()) {
    const auto [error, got] = co_await socket_.async_read_some(asio::buffer(buffer), kTuple);
    if (error || !session_.receive(Bytes(buffer.data(), got))) break;
    notify();
    flush();
  }
  close();
}

void AgentLink::notify() {
  for (const int stream : session_.take_changed()) {
    if (const auto found = waiting_.find(stream); found != waiting_.end()) found->second->cancel();
  }
}

void AgentLink::flush() {
  if (writing_ || !open()) return;
  writing_ = true;
  asio::co_spawn(socket_.get_executor(), write_loop(),
                 [self = shared_from_this()](const std::exception_ptr& failed) {
                   if (failed) self->close();
                 });
}

asio::awaitable<void> AgentLink::write_loop() {
  const auto self = shared_from_this();
  std::string block;
  while (socket_.is_open()) {
    block.clear();
    while (block.size() < kWriteSize) {
      const Bytes more = session_.next_output();
      if (more.empty()) break;
      block += as_text(more);
    }
    if (block.empty()) break;
    const auto [error, put] = co_await asio::async_write(socket_, asio::buffer(block), kTuple);
    if (error) close();
  }
  // Here and not in the completion handler, which runs later: a flush() in between would be lost.
  writing_ = false;
  if (session_.failed()) close();
}

Result<int> AgentLink::request(std::string_view method, std::string_view path, std::string body) {
  if (!open()) return lost();
  auto stream = session_.request(method, path, std::move(body));
  if (stream) flush();
  return stream;
}

void AgentLink::release(int stream) {
  session_.release(stream);
  flush();
}

asio::awaitable<Result<>> AgentLink::changed(int stream, Deadline deadline) {
  if (!open()) co_return lost();
  const auto self = shared_from_this();
  asio::steady_timer timer(socket_.get_executor(), deadline);
  waiting_[stream] = &timer;
  const auto [error] = co_await timer.async_wait(kTuple);
  waiting_.erase(stream);
  if (!error) co_return fail(Code::timed_out, "the agent did not answer in time");
  if (!open()) co_return lost();
  co_return Result<>{};
}

asio::awaitable<Result<AgentAnswer>> AgentLink::rest_of(int stream, Deadline deadline) {
  const auto self = shared_from_this();
  AgentAnswer answer;
  for (;;) {
    answer.body += session_.take_body(stream);
    answer.status = session_.status(stream);
    if (session_.ended(stream) || answer.body.size() > kMaxAnswer) break;
    flush();
    if (auto news = co_await changed(stream, deadline); !news)
      co_return std::unexpected(news.error());
  }
  if (session_.reset(stream) || answer.body.size() > kMaxAnswer || answer.status == 0) {
    co_return fail(Code::unavailable, "the agent's answer makes no sense");
  }
  co_return answer;
}

asio::awaitable<Result<AgentAnswer>> AgentLink::ask(std::string method, std::string path,
                                                    std::string body, Deadline deadline) {
  const auto self = shared_from_this();
  const auto stream = request(method, path, std::move(body));
  if (!stream) co_return std::unexpected(stream.error());
  auto answer = co_await rest_of(*stream, deadline);
  release(*stream);
  co_return answer;
}

}  // namespace sallyport::driver
