// SPDX-License-Identifier: Apache-2.0
// A small HTTP server on a unix socket in a folder of its own, for tests of the CLI: answers each
// request from a function and remembers what it was asked. One connection at a time, in order.
#pragma once

#include <functional>
#include <future>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/fd.h"

namespace sallyport::cli {

struct Asked {
  std::string line;  // "GET /v2/sandboxes?project=default"
  std::string head;  // the headers, as sent
  std::string body;
};

class FakeApi {
 public:
  struct Answer {
    int status = 200;
    // Sent one after the other, as chunks if there is more than one.
    std::vector<std::string> pieces{};
    bool cut = false;                 // close without the last chunk
    std::shared_future<void> hold{};  // waited for before the last piece, if valid
  };
  using Respond = std::function<Answer(const Asked&)>;

  explicit FakeApi(Respond respond);
  ~FakeApi();
  FakeApi(const FakeApi&) = delete;
  FakeApi& operator=(const FakeApi&) = delete;

  [[nodiscard]] std::string address() const { return "unix:" + folder_ + "/api.sock"; }
  [[nodiscard]] std::vector<Asked> asked() const;

 private:
  void serve();
  void answer(int client);

  Respond respond_;
  std::string folder_;
  Fd listener_;
  mutable std::mutex mutex_;
  std::vector<Asked> asked_;
  std::vector<std::thread> connections_;  // touched by thread_ until it has ended
  std::thread thread_;
};

}  // namespace sallyport::cli
