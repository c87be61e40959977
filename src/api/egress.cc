// SPDX-License-Identifier: Apache-2.0
// GET /sallyport/v1/sandboxes/{name}/egress: the egress log, oldest line first, and with
// follow=true what comes next until the sandbox ends. The worker writes the files and the
// supervisor rotates them; here they are only read, and a line is sent only once it is whole.
// denied=true leaves out what was allowed.
#include <fcntl.h>
#include <sys/stat.h>

#include "api/await.h"
#include "api/resources.h"
#include "base/fd.h"
#include "sandbox/egress_log.h"

namespace sallyport::api {
namespace {

using sandbox::Supervisor;

constexpr std::size_t kChunk = 256U << 10;
constexpr std::size_t kMaxLine = 64U << 10;
constexpr std::chrono::milliseconds kPoll{200};
constexpr int kPollsPerKeepAlive = 75;

// One file, read from its beginning; gives whole lines.
class LogReader {
 public:
  explicit LogReader(const std::string& path)
      : file_(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW)) {}
  [[nodiscard]] bool is_open() const { return static_cast<bool>(file_); }

  // Whole lines as they are now, at most one chunk; empty: no more at the moment.
  std::string next(bool denied_only) {
    std::string lines;
    std::string chunk(kChunk, '\0');
    const ssize_t size = file_ ? ::read(file_.get(), chunk.data(), chunk.size()) : 0;
    if (size <= 0) return lines;
    rest_.append(chunk, 0, static_cast<std::size_t>(size));
    std::size_t begin = 0;
    while (true) {
      const std::size_t end = rest_.find('\n', begin);
      if (end == std::string::npos) break;
      const std::string_view line(rest_.data() + begin, end + 1 - begin);
      if (!denied_only || line.find(R"("verdict":"deny")") != std::string_view::npos) lines += line;
      begin = end + 1;
    }
    rest_.erase(0, begin);
    if (rest_.size() > kMaxLine) rest_.clear();  // not a line of ours
    return lines.empty() && begin > 0
               ? "\n"
               : lines;  // all filtered: a blank line, so that the caller goes on
  }

  // Does `path` name another file by now?
  [[nodiscard]] bool was_rotated(const std::string& path) const {
    struct stat now{}, ours{};
    return ::stat(path.c_str(), &now) == 0 && ::fstat(file_.get(), &ours) == 0 &&
           now.st_ino != ours.st_ino;
  }

 private:
  Fd file_;
  std::string rest_;
};

struct Wanted {
  std::string session;
  std::string state_dir;
  bool follow = false;
  bool denied = false;
};

asio::awaitable<void> send(Supervisor& supervisor, Wanted wanted, Output& output) {
  for (int age = sandbox::kKeptEgressLogs; age > 0; --age) {
    LogReader old(sandbox::egress_log_path(wanted.state_dir, age));
    while (true) {
      const std::string lines = old.next(wanted.denied);
      if (lines.empty()) break;
      if (!co_await output.write(lines)) co_return;
    }
  }
  const std::string path = sandbox::egress_log_path(wanted.state_dir);
  auto current = std::make_unique<LogReader>(path);
  asio::steady_timer timer(co_await asio::this_coro::executor);
  int quiet = 0;
  while (true) {
    const bool rotated = current->is_open() && current->was_rotated(path);
    const bool ended = !supervisor.agent(wanted.session).has_value();
    const std::string lines =
        current->next(wanted.denied);  // after both questions: what they saw is read
    if (!lines.empty()) {
      quiet = 0;
      if (!co_await output.write(lines)) co_return;
      continue;
    }
    if (rotated || !current->is_open()) current = std::make_unique<LogReader>(path);
    if (rotated) continue;
    if (!wanted.follow || ended) co_return;
    if (++quiet % kPollsPerKeepAlive == 0 && !co_await output.write("\n")) co_return;
    timer.expires_after(kPoll);
    co_await timer.async_wait(asio::use_awaitable);
  }
}

asio::awaitable<Reply> egress(Supervisor& supervisor, const Call& call) {
  const auto view = co_await visible_sandbox(supervisor, call);
  if (!view) co_return error_reply(view.error());
  Wanted wanted{view->session.id,
                supervisor.settings().state_dir + "/sandboxes/" + view->session.id,
                call.query_value("follow") == "true", call.query_value("denied") == "true"};
  Reply reply;
  reply.content_type = kNdjson;
  reply.stream = [&supervisor, wanted = std::move(wanted)](Output& output) {
    return send(supervisor, wanted, output);
  };
  co_return reply;
}

}  // namespace

void add_egress_routes(Router& router, Supervisor& supervisor) {
  router.add({"GET", "/sallyport/v1/sandboxes/{name}/egress",
              [&supervisor](const Call& call) { return egress(supervisor, call); }});
}

}  // namespace sallyport::api
