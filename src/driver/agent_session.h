// SPDX-License-Identifier: Apache-2.0
// HTTP/2 client over bytes, without a socket: what the agent sends goes in, what it shall get comes
// out, and answers pile up per stream within fixed bounds. The agent is hostile: nghttp2 checks the
// framing, this file bounds what is kept.
//
// Invariants: at most kStreamWindow body bytes per stream are held; a stream that nobody reads
// stops its own sender only (the connection's window is given back at once); after failed() nothing
// is parsed any more.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"

struct nghttp2_session;

namespace sallyport::driver {

inline constexpr std::size_t kStreamWindow = 256U << 10;
inline constexpr std::size_t kMaxAgentStreams = 1024;

class AgentSession {
 public:
  AgentSession();
  ~AgentSession();
  AgentSession(const AgentSession&) = delete;
  AgentSession& operator=(const AgentSession&) = delete;

  // False: the connection must be dropped. A broken protocol may also show in next_output(), which
  // then gives the farewell: look at failed() after it.
  [[nodiscard]] bool receive(Bytes bytes);
  // Bytes to send next, empty when there is nothing. Valid until the next call of anything here.
  [[nodiscard]] Bytes next_output();
  [[nodiscard]] bool failed() const { return failed_; }

  // Code::unavailable when the peer allows no further stream.
  [[nodiscard]] Result<int> request(std::string_view method, std::string_view path,
                                    std::string body);

  // 0 until the answer's head is there.
  [[nodiscard]] int status(int stream) const;
  // Nothing more will come: ended properly, reset, or unknown.
  [[nodiscard]] bool ended(int stream) const;
  [[nodiscard]] bool reset(int stream) const;  // ended, but not properly
  [[nodiscard]] std::string take_body(int stream);
  // The answer is of no interest (any more).
  void release(int stream);

  // Streams with news since the last call.
  [[nodiscard]] std::vector<int> take_changed();

 private:
  struct Stream {
    std::string request_body;
    std::size_t request_sent = 0;
    int status = 0;
    std::string body;
    bool ended = false;
    bool reset = false;
  };
  struct Callbacks;

  nghttp2_session* session_ = nullptr;
  std::map<int, Stream> streams_;
  std::vector<int> changed_;
  bool failed_ = false;
};

}  // namespace sallyport::driver
