// SPDX-License-Identifier: Apache-2.0
// One connection to an agent: a unix socket, an AgentSession, a reading and a writing coroutine,
// and waits with deadlines. Shared by the AgentClient and its AgentCommands; ends when the socket
// is closed. Internal to the folder.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "driver/agent_session.h"

namespace sallyport::driver {

namespace asio = boost::asio;

struct AgentAnswer {
  int status = 0;
  std::string body;
};

class AgentLink : public std::enable_shared_from_this<AgentLink> {
 public:
  using Deadline = std::chrono::steady_clock::time_point;

  explicit AgentLink(asio::local::stream_protocol::socket socket);

  void start();  // reads from now on
  void close();
  [[nodiscard]] bool open() const { return socket_.is_open() && !session_.failed(); }

  [[nodiscard]] Result<int> request(std::string_view method, std::string_view path,
                                    std::string body);
  // A whole answer, at most kMaxAnswer bytes; the stream is released.
  [[nodiscard]] asio::awaitable<Result<AgentAnswer>> ask(std::string method, std::string path,
                                                         std::string body, Deadline deadline);
  // What is left of one answer's body.
  [[nodiscard]] asio::awaitable<Result<AgentAnswer>> rest_of(int stream, Deadline deadline);
  // Until something happened on the stream or the connection is lost; Code::timed_out at the
  // deadline. One waiter per stream.
  [[nodiscard]] asio::awaitable<Result<>> changed(int stream, Deadline deadline);

  [[nodiscard]] AgentSession& session() { return session_; }
  void release(int stream);
  void flush();  // after any change to the session that makes output

 private:
  asio::awaitable<void> read_loop();
  asio::awaitable<void> write_loop();
  void notify();

  asio::local::stream_protocol::socket socket_;
  AgentSession session_;
  std::map<int, asio::steady_timer*> waiting_;
  bool writing_ = false;
};

}  // namespace sallyport::driver
