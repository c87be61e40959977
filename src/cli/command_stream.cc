// SPDX-License-Identifier: Apache-2.0
#include "cli/command_stream.h"

#include <fmt/format.h>
#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <mutex>
#include <thread>

#include "cli/format.h"

namespace sallyport::cli {
namespace {

// Signals that would end this program are taken by a thread of their own and passed on to the
// command by a second call; the stream then ends by itself with the command's status. Three of one
// run and we give up waiting.
class SignalRelay {
 public:
  SignalRelay(const Client& client, std::string session_id)
      : client_(client), session_(std::move(session_id)) {
    sigemptyset(&mine_);
    for (const int each : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1}) sigaddset(&mine_, each);
    pthread_sigmask(SIG_BLOCK, &mine_, &before_);
    thread_ = std::thread([this] { relay(); });
  }
  ~SignalRelay() {
    done_ = true;
    pthread_kill(thread_.native_handle(), SIGUSR1);  // blocked everywhere: it only wakes sigwait()
    thread_.join();
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  SignalRelay(const SignalRelay&) = delete;
  SignalRelay& operator=(const SignalRelay&) = delete;

  void started(std::string command) {
    const std::scoped_lock lock(mutex_);
    command_ = std::move(command);
  }

 private:
  void relay() {
    for (int count = 1;; ++count) {
      int number = 0;
      if (sigwait(&mine_, &number) != 0 || done_) return;
      if (number == SIGUSR1) continue;
      std::string command;
      {
        const std::scoped_lock lock(mutex_);
        command = command_;
      }
      if (command.empty() || count > 2) _exit(128 + number);
      const auto told = client_.call(
          "POST",
          fmt::format("/v2/sandboxes/sessions/{}/cmd/{}/kill", encode(session_), encode(command)),
          json::value(json::object{{"signal", number}}));
      if (!told) _exit(128 + number);
    }
  }

  const Client& client_;
  std::string session_;
  sigset_t mine_{};
  sigset_t before_{};
  std::mutex mutex_;
  std::string command_;
  std::atomic<bool> done_ = false;
  std::thread thread_;
};

}  // namespace

Result<int> run_command(const Session& session, const Client& client, const std::string& session_id,
                        const json::object& request) {
  SignalRelay relay(client, session_id);
  std::optional<int> status;
  std::optional<Error> failure;
  const auto on_line = [&](std::string_view line) {
    const auto record = parse_json(line, {.max_bytes = kMaxLine});
    if (!record) {
      failure = Error{Code::internal, "the API's answer: " + record.error().message};
      return false;
    }
    if (const auto* command = member(*record, "command")) {
      relay.started(text_member(*command, "id"));
      const auto* code = member(*command, "exitCode");
      if (code != nullptr && code->is_int64()) status = static_cast<int>(code->get_int64());
      return !status.has_value();
    }
    const std::string stream = text_member(*record, "stream");
    const auto* data = member(*record, "data");
    if (stream == "error" && data != nullptr) {
      failure = Error{Code::internal, text_member(*data, "message", "the command failed")};
      return false;
    }
    if (data == nullptr || !data->is_string()) return true;
    std::ostream& out = stream == "stderr" ? session.terminal.err : session.terminal.out;
    const auto& bytes = data->get_string();
    out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    out.flush();
    return true;
  };
  const auto target =
      fmt::format("/v2/sandboxes/sessions/{}/cmd?wait=true&logs=true", encode(session_id));
  if (auto streamed = client.stream("POST", target, json::value(request), on_line); !streamed) {
    return std::unexpected(streamed.error());
  }
  if (failure) return std::unexpected(*failure);
  if (!status) return fail(Code::unavailable, "the connection ended before the command did");
  return *status;
}

}  // namespace sallyport::cli
