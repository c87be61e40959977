// SPDX-License-Identifier: Apache-2.0
// HTTP/2 with prior knowledge on a listening unix socket, by nghttp2: request in, answer out,
// bodies pulled from a BodySource with the peer's flow control as the only pump. Knows no paths.
#pragma once

#include <functional>
#include <memory>
#include <set>
#include <string>

#include "base/fd.h"
#include "guest/body_source.h"
#include "guest/loop.h"

namespace sallyport::guest {

struct Request {
  std::string method;
  std::string path;
  std::string body;
};
struct Answer {
  int status = 200;
  std::string body;                    // JSON; or
  std::shared_ptr<BodySource> stream;  // bytes, when set
};
// Called once, at once or later; does nothing if the peer has left meanwhile.
using Respond = std::function<void(Answer)>;
using Serve = std::function<void(Request, Respond)>;

class Connection;

class HttpServer {
 public:
  HttpServer(Loop& loop, Fd listener, Serve serve);
  ~HttpServer();

 private:
  void acceptable();

  Loop& loop_;
  Fd listener_;
  Serve serve_;
  std::set<std::shared_ptr<Connection>> connections_;
};

}  // namespace sallyport::guest
