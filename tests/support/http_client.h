// SPDX-License-Identifier: Apache-2.0
// Just enough HTTP/1.1 to talk to our own server over its unix socket: one request per connection,
// everything read until the end, chunks joined. `chunks` keeps them apart for tests that care where
// they were cut.
#pragma once

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/fd.h"
#include "base/json.h"

namespace sallyport::test {

struct HttpAnswer {
  int status = 0;
  std::string head;
  std::string body;
  std::vector<std::string> chunks;

  [[nodiscard]] std::string header(const std::string& name) const {
    const std::string key = "\r\n" + name + ": ";
    const std::size_t at = head.find(key);
    if (at == std::string::npos) return "";
    const std::size_t from = at + key.size();
    return head.substr(from, head.find("\r\n", from) - from);
  }
  [[nodiscard]] json::value json() const {
    auto value = parse_json(body, {.max_bytes = 64U << 20, .max_depth = 64});
    CHECK(value.has_value());
    return *std::move(value);
  }
  [[nodiscard]] std::vector<json::object> lines() const {
    std::vector<json::object> out;
    std::size_t at = 0;
    while (at < body.size()) {
      const std::size_t end = body.find('\n', at);
      CHECK(end != std::string::npos);  // every line ends
      if (end > at) {
        auto value = parse_json(std::string_view(body).substr(at, end - at));
        CHECK(value.has_value());
        out.push_back(value->as_object());
      }
      at = end + 1;
    }
    return out;
  }
  [[nodiscard]] std::string error_code() const {
    return std::string(json().at("error").at("code").as_string());
  }
  [[nodiscard]] std::string error_message() const {
    return std::string(json().at("error").at("message").as_string());
  }
};

class HttpConnection {
 public:
  explicit HttpConnection(const std::string& path)
      : socket_(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, path.data(), path.size());
    CHECK(::connect(socket_.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
  }
  void send(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t sent = ::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent <= 0) return;  // the server hung up; what it said is still to be read
      bytes.remove_prefix(static_cast<std::size_t>(sent));
    }
  }
  // Until the server closes.
  std::string read_all() {
    std::string all;
    char buffer[65536];
    while (true) {
      const ssize_t size = ::recv(socket_.get(), buffer, sizeof buffer, 0);
      if (size <= 0) return all;
      all.append(buffer, static_cast<std::size_t>(size));
    }
  }
  // Until `mark` has come.
  std::string read_until(const std::string& mark) {
    std::string all;
    char byte;
    while (all.find(mark) == std::string::npos && ::recv(socket_.get(), &byte, 1, 0) == 1)
      all += byte;
    return all;
  }
  void close() { socket_.reset(); }

 private:
  Fd socket_;
};

inline HttpAnswer parse_answer(const std::string& raw) {
  HttpAnswer answer;
  const std::size_t end = raw.find("\r\n\r\n");
  if (end == std::string::npos) return answer;
  answer.head = raw.substr(0, end + 2);
  answer.status = std::atoi(answer.head.c_str() + 9);
  answer.body = raw.substr(end + 4);
  if (answer.header("Transfer-Encoding") != "chunked") return answer;
  std::string rest = std::move(answer.body);
  answer.body.clear();
  while (true) {
    const std::size_t line = rest.find("\r\n");
    if (line == std::string::npos) return answer;
    const std::size_t size = std::stoul(rest.substr(0, line), nullptr, 16);
    if (size == 0) return answer;
    answer.chunks.push_back(rest.substr(line + 2, size));
    answer.body += answer.chunks.back();
    rest.erase(0, line + 2 + size + 2);
  }
}

inline std::string render_http(const std::string& method, const std::string& target,
                               const std::string& body, const std::string& extra = "") {
  return method + " " + target +
         " HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nConnection: close\r\n" + extra +
         "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
}

inline HttpAnswer http(const std::string& path, const std::string& method,
                       const std::string& target, const std::string& body = "",
                       const std::string& extra = "") {
  HttpConnection connection(path);
  connection.send(render_http(method, target, body, extra));
  return parse_answer(connection.read_all());
}

}  // namespace sallyport::test
