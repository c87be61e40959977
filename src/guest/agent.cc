// SPDX-License-Identifier: Apache-2.0
#include "guest/agent.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/wait.h>

#include <algorithm>
#include <boost/json/serialize.hpp>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <string_view>

#include "base/json.h"
#include "guest/process_tree.h"

namespace sallyport::guest {
namespace {

using std::chrono::milliseconds;

constexpr std::size_t kMaxProcesses =
    512;  // commands of which anything lives; a sandbox can run more inside them
constexpr milliseconds kDefaultGrace{2000};
constexpr milliseconds kMaxGrace{30'000};
constexpr std::string_view kDefaultPath =
    "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
constexpr std::string_view kDefaultUser = "ubuntu";

Answer error_answer(int status, std::string_view code, std::string_view message) {
  return {.status = status,
          .body = serialize_ascii(
              json::object{{"error", json::object{{"code", code}, {"message", message}}}}),
          .stream = nullptr};
}

Plan make_plan(const StartRequest& request, Account account) {
  Plan plan;
  plan.argv.push_back(request.command);
  plan.argv.insert(plan.argv.end(), request.args.begin(), request.args.end());
  plan.cwd = request.cwd;
  plan.path = kDefaultPath;
  auto env = request.env;
  const auto add_absent = [&env](std::string_view name, std::string_view value) {
    if (std::ranges::find(env, name, [](const auto& pair) {
          return std::string_view(pair.first);
        }) == env.end()) {
      env.emplace_back(name, value);
    }
  };
  add_absent("HOME", account.home);
  add_absent("USER", account.name);
  add_absent("LOGNAME", account.name);
  if (account.uid == 0) add_absent("SUDO_USER", kDefaultUser);
  add_absent("PATH", kDefaultPath);
  for (const auto& [name, value] : env) {
    if (name == "PATH") plan.path = value;
    plan.env.push_back(name + "=" + value);
  }
  plan.account = std::move(account);
  return plan;
}

Answer start_failure(const StartRequest& request, Stage stage, int error) {
  const std::string why = std::strerror(error);
  switch (stage) {
    case Stage::exec:
      if (error == ENOENT || error == ENOTDIR) {
        return error_answer(404, "executable_not_found", request.command + ": command not found");
      }
      return error_answer(400, error == EACCES ? "permission_denied" : "exec_failed",
                          request.command + ": " + why);
    case Stage::cwd:
      return error_answer(400, "invalid_cwd",
                          (request.cwd.empty() ? "home directory" : request.cwd) + ": " + why);
    case Stage::identity:
      return error_answer(400, "invalid_user", request.user + ": " + why);
    case Stage::prepare:
      break;
  }
  return error_answer(503, "unavailable", "cannot start a process: " + why);
}

std::optional<pid_t> pid_in_path(std::string_view path) {
  constexpr std::string_view kBefore = "/v1/processes/";
  constexpr std::string_view kAfter = "/kill";
  if (!path.starts_with(kBefore) || !path.ends_with(kAfter)) return std::nullopt;
  path.remove_prefix(kBefore.size());
  if (path.size() <= kAfter.size()) return std::nullopt;
  path.remove_suffix(kAfter.size());
  pid_t pid = 0;
  const auto [end, failed] = std::from_chars(path.data(), path.data() + path.size(), pid);
  if (failed != std::errc{} || end != path.data() + path.size() || pid <= 0) return std::nullopt;
  return pid;
}

// A whole number in a one-field object; absent or an empty body gives `fallback`.
std::optional<std::int64_t> number_field(const std::string& body, std::string_view name,
                                         std::int64_t fallback) {
  if (body.empty()) return fallback;
  const auto value = parse_json(body, {.max_bytes = 4096, .max_depth = 2});
  if (!value || !value->is_object()) return std::nullopt;
  const auto* field = value->get_object().if_contains(name);
  if (field == nullptr) return fallback;
  return field->is_int64() ? std::optional(field->get_int64()) : std::nullopt;
}

}  // namespace

Agent::Agent(Loop& loop, Fd listener, Fd signals)
    : loop_(loop),
      signals_(std::move(signals)),
      server_(loop, std::move(listener), [this](Request request, const Respond& respond) {
        serve(std::move(request), respond);
      }) {
  loop_.watch(signals_.get(), EPOLLIN, [this] { signalled(); });
}

void Agent::serve(Request request, const Respond& respond) {
  const auto is = [&request](std::string_view method, std::string_view path) {
    return request.method == method && request.path == path;
  };
  if (is("GET", "/v1/health")) {
    return respond(
        {.status = 200,
         .body = fmt::format(R"({{"agent":"{}","pid":{}}})", SALLYPORT_VERSION, ::getpid()),
         .stream = nullptr});
  }
  if (is("POST", "/v1/processes")) return start(request, respond);
  if (is("POST", "/v1/shutdown")) {
    const auto grace = number_field(request.body, "grace_ms", kDefaultGrace.count());
    if (!grace || *grace < 0)
      return respond(error_answer(400, "bad_request", "$.grace_ms: must be a number >= 0"));
    respond({.status = 200, .body = "{}", .stream = nullptr});
    return shut_down(std::min(milliseconds(*grace), kMaxGrace));
  }
  if (const auto pid = pid_in_path(request.path); pid && request.method == "POST")
    return kill(request, *pid, respond);
  respond(error_answer(404, "not_found", "no such path"));
}

void Agent::start(const Request& request, const Respond& respond) {
  auto wanted = parse_start_request(request.body);
  if (!wanted) return respond(error_answer(400, "bad_request", wanted.error().message));
  if (shutting_down_)
    return respond(error_answer(503, "unavailable", "the sandbox is shutting down"));
  if (processes_.size() >= kMaxProcesses)
    return respond(error_answer(503, "unavailable", "too many processes"));
  auto account = look_up_account(wanted->user);
  if (!account) return respond(error_answer(400, "invalid_user", "no such user: " + wanted->user));
  launch(*wanted, make_plan(*wanted, std::move(*account)), respond);
}

void Agent::launch(const StartRequest& wanted, Plan plan, const Respond& respond) {
  auto spawned = spawn(plan);
  if (!spawned) return respond(error_answer(503, "unavailable", spawned.error().message));
  const pid_t keeper = spawned->keeper;
  Process::Events events{
      .started =
          [this, keeper, respond] {
            respond({.status = 200, .body = {}, .stream = processes_.at(keeper)});
          },
      .failed = [wanted, respond](Stage stage,
                                  int error) { respond(start_failure(wanted, stage, error)); },
      .gone =
          [this, keeper] {
            processes_.erase(keeper);
            finish_when_empty();
          },
  };
  processes_[keeper] = std::make_shared<Process>(
      loop_, std::move(*spawned), milliseconds(wanted.timeout_ms), std::move(events));
}

std::shared_ptr<Process> Agent::find(pid_t pid) const {
  // A number may have been reused since an older command with surviving children ended: the newest
  // keeper that is still there is taken.
  std::shared_ptr<Process> found;
  for (const auto& [keeper, process] : processes_) {
    if (process->pid() == pid && (!found || process->born() > found->born())) found = process;
  }
  return found;
}

void Agent::kill(const Request& request, pid_t pid, const Respond& respond) {
  const auto number = number_field(request.body, "signal", SIGTERM);
  if (!number || *number < 1 || *number >= NSIG) {
    return respond(error_answer(400, "bad_request", "$.signal: must be a signal number"));
  }
  const auto process = find(pid);
  if (!process || !process->signal(int(*number))) {
    return respond(error_answer(404, "not_found", "no such process"));
  }
  respond({.status = 200, .body = "{}", .stream = nullptr});
}

void Agent::signalled() {
  signalfd_siginfo info{};
  if (::read(signals_.get(), &info, sizeof info) != ssize_t(sizeof info)) return;
  if (info.ssi_signo == SIGCHLD) return reap();
  shut_down(kDefaultGrace);
}

// PID 1 gets keepers, and orphans whose keeper was killed.
void Agent::reap() {
  for (;;) {
    const pid_t pid = ::waitpid(-1, nullptr, WNOHANG);
    if (pid <= 0) return;
    if (const auto found = processes_.find(pid); found != processes_.end())
      found->second->keeper_ended();
  }
}

void Agent::shut_down(milliseconds grace) {
  if (shutting_down_) return;
  shutting_down_ = true;
  // One look at /proc for all commands; keepers have these signals blocked.
  signal_tree(::getpid(), SIGTERM);
  signal_tree(::getpid(), SIGCONT);  // a stopped process would sleep through its grace
  loop_.after(grace, [this] {
    kill_tree(::getpid());
    loop_.stop();
  });
  loop_.after(milliseconds(0), [this] { finish_when_empty(); });
}

void Agent::finish_when_empty() {
  if (!shutting_down_ || !processes_.empty()) return;
  loop_.after(milliseconds(10),
              [this] { loop_.stop(); });  // the answer to the shutdown request leaves first
}

}  // namespace sallyport::guest
