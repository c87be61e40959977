// SPDX-License-Identifier: Apache-2.0
// One connection to the supervisor: frames in, answers and events out, descriptors beside the
// frames that name them. Knows nothing of what the requests mean. A supervisor that sends garbage
// or does not read loses the channel.
#pragma once

#include <deque>
#include <functional>
#include <string>

#include "base/fd.h"
#include "base/json.h"
#include "net/reactor.h"
#include "net/task.h"

namespace sallyport::firewall {

class ControlChannel {
 public:
  // `passed` is the oldest descriptor not taken yet; the handler takes it if the request is about
  // one.
  using Handler = std::function<json::object(const json::object& request, Fd& passed)>;

  ControlChannel(net::Reactor& reactor, Fd channel, Handler handler);

  net::Task<> run();  // until the other end closes or close()
  void close() { bell_.cancel(); }
  [[nodiscard]] bool closed() const { return bell_.cancelled(); }
  void send(const json::object& message);

 private:
  bool receive();  // false: the channel is over
  bool answer_all();
  bool flush();

  net::Bell bell_;
  net::Socket socket_;
  Handler handler_;
  std::string in_;
  std::string out_;
  std::deque<Fd> passed_;
};

}  // namespace sallyport::firewall
