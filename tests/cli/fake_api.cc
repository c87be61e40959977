// SPDX-License-Identifier: Apache-2.0
#include "cli/fake_api.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>

namespace sallyport::cli {
namespace {

void send_all(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (count <= 0) return;
    bytes.remove_prefix(static_cast<std::size_t>(count));
  }
}

}  // namespace

FakeApi::FakeApi(Respond respond) : respond_(std::move(respond)) {
  char pattern[] = "/tmp/sallyport-cli-XXXXXX";
  folder_ = ::mkdtemp(pattern);
  listener_ = Fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string path = folder_ + "/api.sock";
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  EXPECT_EQ(::bind(listener_.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  EXPECT_EQ(::listen(listener_.get(), 16), 0);
  thread_ = std::thread([this] { serve(); });
}

FakeApi::~FakeApi() {
  ::shutdown(listener_.get(), SHUT_RDWR);  // wakes accept()
  thread_.join();
  for (std::thread& connection : connections_) connection.join();
  std::filesystem::remove_all(folder_);
}

std::vector<Asked> FakeApi::asked() const {
  const std::scoped_lock lock(mutex_);
  return asked_;
}

void FakeApi::serve() {
  for (;;) {
    Fd client(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!client) return;
    connections_.emplace_back([this, client = std::move(client)] { answer(client.get()); });
  }
}

void FakeApi::answer(int client) {
  std::string text;
  std::size_t need = std::string::npos;
  while (text.size() < need) {
    char buffer[65536];
    const ssize_t count = ::recv(client, buffer, sizeof buffer, 0);
    if (count <= 0) return;
    text.append(buffer, static_cast<std::size_t>(count));
    const auto end = text.find("\r\n\r\n");
    if (end == std::string::npos) continue;
    const auto length = text.find("Content-Length: ");
    need = end + 4 + (length < end ? std::strtoul(text.c_str() + length + 16, nullptr, 10) : 0);
  }
  const auto line = text.find("\r\n");
  const auto head = text.find("\r\n\r\n");
  Asked asked{text.substr(0, text.rfind(" HTTP/1.1", line)), text.substr(line + 2, head - line),
              text.substr(head + 4)};
  {
    const std::scoped_lock lock(mutex_);
    asked_.push_back(asked);
  }
  const Answer answer = respond_(asked);
  std::string start =
      fmt::format("HTTP/1.1 {} Status\r\nContent-Type: application/json\r\nConnection: close\r\n",
                  answer.status);
  if (answer.pieces.size() < 2 && !answer.cut) {
    const std::string body = answer.pieces.empty() ? "" : answer.pieces[0];
    send_all(client, start + fmt::format("Content-Length: {}\r\n\r\n", body.size()) + body);
    return;
  }
  send_all(client, start + "Transfer-Encoding: chunked\r\n\r\n");
  for (const std::string& piece : answer.pieces) {
    if (answer.hold.valid() && &piece == &answer.pieces.back()) answer.hold.wait();
    send_all(client, fmt::format("{:x}\r\n{}\r\n", piece.size(), piece));
  }
  if (!answer.cut) send_all(client, "0\r\n\r\n");
}

}  // namespace sallyport::cli
