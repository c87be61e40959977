// SPDX-License-Identifier: Apache-2.0
// The HTTP/1.1 listener: a unix socket whose file mode is the access control, or TCP with bearer
// tokens. Every size and every wait of a connection is bounded; a client that reads too slowly
// loses its connection, never our memory.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "api/auth.h"
#include "api/router.h"
#include "base/result.h"

namespace boost::asio {
class io_context;
}

namespace sallyport::api {

struct ServerSettings {
  std::string listen;         // "unix:/path" or "tcp:127.0.0.1:8400"
  std::string group;          // of the unix socket; empty: root's
  std::vector<Token> tokens;  // for TCP
  std::size_t max_connections = 1024;
  std::chrono::seconds idle_limit{75};    // between requests
  std::chrono::seconds header_limit{10};  // from the first byte to the end of the header
  std::chrono::seconds body_limit{60};
  std::chrono::seconds write_limit{60};  // for each write of a plain answer
  // For each write of a stream. A person may have paused what reads it; meanwhile it costs a
  // connection, no memory.
  std::chrono::seconds stream_limit{3600};
};

class Server {
 public:
  Server(boost::asio::io_context& context, const Router& router, ServerSettings settings);
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  [[nodiscard]] Result<> start();
  void stop();  // from any thread, done on the loop: no new connections; open ones end after their
                // request
  [[nodiscard]] std::uint16_t port() const;  // of TCP, for tests that listen on port 0

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace sallyport::api
