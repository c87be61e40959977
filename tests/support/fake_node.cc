// SPDX-License-Identifier: Apache-2.0
#include "support/fake_node.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "policy/policy_json.h"

extern char** environ;

namespace sallyport::test {
namespace fs = std::filesystem;
using sandbox::Worker;

FakeKernel::FakeKernel(std::string directory) : directory_(std::move(directory)) {
  for (const char* kind : {"router", "nft", "link", "worker", "guest"})
    fs::create_directories(directory_ + "/" + kind);
}

FakeKernel::~FakeKernel() {
  for (const std::string& id : ids("guest")) {
    const int pid = std::atoi(content("guest", id).c_str());
    if (pid > 1) ::kill(pid, SIGKILL);
  }
}

Result<> FakeKernel::step(const std::string& what) {
  const int number = ++steps_;
  if (number == kill_at) die(77);
  if (number == fail_at) return fail(Code::internal, "made to fail: " + what);
  return {};
}

void FakeKernel::die(int code) {
  ::syscall(SYS_exit_group, code);
  std::abort();
}

void FakeKernel::put(const std::string& kind, const std::string& id, const std::string& content) {
  const std::string path = directory_ + "/" + kind + "/" + id;
  std::ofstream(path + ".new") << content;
  fs::rename(path + ".new", path);
}

void FakeKernel::remove(const std::string& kind, const std::string& id) {
  fs::remove(directory_ + "/" + kind + "/" + id);
}

std::string FakeKernel::content(const std::string& kind, const std::string& id) const {
  std::ifstream file(directory_ + "/" + kind + "/" + id);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

std::vector<std::string> FakeKernel::ids(const std::string& kind) const {
  std::vector<std::string> out;
  for (const auto& entry : fs::directory_iterator(directory_ + "/" + kind)) {
    if (entry.path().extension() != ".new") out.push_back(entry.path().filename());
  }
  return out;
}

std::vector<std::string> FakeKernel::everything() const {
  std::vector<std::string> out;
  for (const char* kind : {"router", "nft", "link", "worker", "guest"}) {
    for (const std::string& id : ids(kind)) out.push_back(std::string(kind) + "/" + id);
  }
  return out;
}

// ---- network ----

host::SandboxAddresses FakeNetwork::addresses(unsigned slot) const {
  host::SandboxAddresses out;
  out.guest4 = Address::v4(0x0ad10002 + slot * 8);
  out.guest6 = *Address::parse("fd53::2");
  return out;
}

Result<> FakeNetwork::create_router(const host::SandboxNetwork& sandbox) {
  if (Result<> done = kernel_.step("create_router"); !done) return done;
  kernel_.put("router", sandbox.id, std::to_string(sandbox.slot));
  kernel_.put("nft", sandbox.id, "deny");
  return kernel_.step("create_router end");
}

Result<std::vector<Fd>> FakeNetwork::open_worker_sockets(const host::SandboxNetwork& sandbox) {
  if (Result<> done = kernel_.step("open_worker_sockets"); !done)
    return std::unexpected(done.error());
  if (kernel_.content("router", sandbox.id).empty()) return fail(Code::not_found, "no router");
  std::vector<Fd> out;
  for (int i = 0; i < 8; ++i) out.emplace_back(::open("/dev/null", O_RDWR | O_CLOEXEC));
  return out;
}

Result<host::Applied> FakeNetwork::apply(const host::SandboxNetwork& sandbox,
                                         const host::AddressPolicy& policy) {
  if (Result<> done = kernel_.step("apply"); !done) return std::unexpected(done.error());
  if (kernel_.content("router", sandbox.id).empty()) return fail(Code::not_found, "no router");
  std::string text = policy.forward_all ? "all" : "";
  for (const Cidr& range : policy.allowed) text += " +" + range.to_string();
  for (const Cidr& range : policy.denied) text += " -" + range.to_string();
  kernel_.put("nft", sandbox.id, text.empty() ? "deny" : text);
  if (Result<> done = kernel_.step("apply end"); !done) return std::unexpected(done.error());
  return host::Applied{1, 1};
}

Result<> FakeNetwork::attach_guest(const host::SandboxNetwork& sandbox, int) {
  if (Result<> done = kernel_.step("attach_guest"); !done) return done;
  // FW-008, R-096: whoever attaches a guest before the policy is in force opens a window.
  const std::string worker = kernel_.content("worker", sandbox.id);
  if (worker.find("v") == std::string::npos)
    return fail(Code::internal, "the guest was attached before the policy was in force");
  kernel_.put("link", sandbox.id, "up");
  return kernel_.step("attach_guest end");
}

Result<> FakeNetwork::destroy(const host::SandboxNetwork& sandbox) {
  if (Result<> done = kernel_.step("destroy"); !done) return done;
  for (const char* kind : {"link", "nft", "router"}) kernel_.remove(kind, sandbox.id);
  return kernel_.step("destroy end");
}

// ---- worker ----

class FakeWorkers::FakeWorker : public Worker, public std::enable_shared_from_this<FakeWorker> {
 public:
  FakeWorker(FakeKernel& kernel, sandbox::Loop& loop, std::string id, int pid,
             sandbox::WorkerEvents events)
      : kernel_(kernel), loop_(loop), id_(std::move(id)), pid_(pid), events_(std::move(events)) {}

  sandbox::ProcessId process() const override { return {pid_, 1}; }

  void ask(json::object request, Fd, std::chrono::milliseconds deadline, Answer answer) override {
    const std::string op(request.at("op").as_string());
    if (dead_)
      return loop_.post([answer] { answer(fail(Code::unavailable, "the worker is gone")); });
    if (mute_) {
      // Held until the deadline; the timer lives as long as this object.
      const std::lock_guard lock(mutex_);
      timers_.push_back(loop_.after(
          deadline, [answer] { answer(fail(Code::timed_out, "the worker does not answer")); }));
      return;
    }
    Result<json::object> result = handle(op, request);
    loop_.post([answer, result] { answer(result); });
  }

  void kill() override { die(); }

  void die() {
    if (dead_.exchange(true)) return;
    kernel_.remove("worker", id_);
    loop_.post([self = shared_from_this()] { self->events_.exited(); });
  }
  void set_mute() { mute_ = true; }
  void say_log_full() { events_.log_full(); }

 private:
  Result<json::object> handle(const std::string& op, const json::object& request) {
    if (Result<> done = kernel_.step("worker " + op); !done) return std::unexpected(done.error());
    const std::lock_guard lock(mutex_);
    json::object out = {{"ok", true}};
    if (op == "prepare") {
      auto policy = policy::policy_from_json(request.at("policy"));
      if (!policy) return fail(Code::invalid, policy.error().message);
      prepared_ = "v" + std::to_string(request.at("version").to_number<int>()) + " " +
                  serialize_ascii(request.at("policy"));
    } else if (op == "commit") {
      kernel_.put("worker", id_, prepared_);
      out["kept"] = 12;
      out["cut"] = 3;
    } else if (op == "stats") {
      out["bytes_up"] = 100;
      out["bytes_down"] = 200;
    }
    return out;
  }

  FakeKernel& kernel_;
  sandbox::Loop& loop_;
  const std::string id_;
  const int pid_;
  sandbox::WorkerEvents events_;
  std::mutex mutex_;
  std::string prepared_;
  std::vector<sandbox::Loop::Handle> timers_;
  std::atomic<bool> dead_ = false;
  std::atomic<bool> mute_ = false;
};

std::shared_ptr<FakeWorkers::FakeWorker> FakeWorkers::make(const std::string& id, int pid,
                                                           sandbox::WorkerEvents events) {
  auto worker = std::make_shared<FakeWorker>(kernel_, loop_, id, pid, std::move(events));
  const std::lock_guard lock(mutex_);
  workers_[id] = worker;
  return worker;
}

Result<std::shared_ptr<Worker>> FakeWorkers::launch(const sandbox::WorkerSpec& spec,
                                                    std::vector<Fd> sockets, Fd log,
                                                    sandbox::WorkerEvents events) {
  if (refuse_launch) return fail(Code::internal, "made to fail: launch");
  if (Result<> done = kernel_.step("launch"); !done) return std::unexpected(done.error());
  if (sockets.size() != 8 || !log) return fail(Code::internal, "descriptors are missing");
  ++launched_;
  kernel_.put("worker", spec.id, "new");
  if (Result<> done = kernel_.step("launch end"); !done) return std::unexpected(done.error());
  return make(spec.id, next_pid_++, std::move(events));
}

Result<std::shared_ptr<Worker>> FakeWorkers::adopt(const sandbox::WorkerSpec& spec,
                                                   sandbox::ProcessId process,
                                                   sandbox::WorkerEvents events) {
  if (kernel_.content("worker", spec.id).empty() || process.pid == 0)
    return fail(Code::not_found, "no such worker");
  return make(spec.id, process.pid, std::move(events));
}

Result<> FakeWorkers::end(const sandbox::WorkerSpec& spec) {
  if (Result<> done = kernel_.step("worker end"); !done) return done;
  kernel_.remove("worker", spec.id);
  return kernel_.step("worker end end");
}

Result<> FakeWorkers::kill_strays(const std::set<unsigned>&) { return {}; }

void FakeWorkers::kill(const std::string& id) {
  std::shared_ptr<FakeWorker> worker;
  {
    const std::lock_guard lock(mutex_);
    worker = workers_[id].lock();
  }
  if (worker) worker->die();
}

void FakeWorkers::set_mute(const std::string& id) {
  const std::lock_guard lock(mutex_);
  if (const auto worker = workers_[id].lock()) worker->set_mute();
}

void FakeWorkers::say_log_full(const std::string& id) {
  const std::lock_guard lock(mutex_);
  if (const auto worker = workers_[id].lock()) worker->say_log_full();
}

// ---- driver ----

Result<sandbox::Running> FakeDriver::start(const sandbox::DriverSpec& spec) {
  if (Result<> done = kernel_.step("driver start"); !done) return std::unexpected(done.error());
  pid_t pid = 0;
  const char* const arguments[] = {"sleep", "600", nullptr};
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  // Nothing of ours may stay open in it: tests wait for the end of pipes.
  for (int fd = 0; fd < 3; ++fd)
    posix_spawn_file_actions_addopen(&files, fd, "/dev/null", O_RDWR, 0);
  posix_spawn_file_actions_addclosefrom_np(&files, 3);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  const int spawned = ::posix_spawn(&pid, "/bin/sleep", &files, &attributes,
                                    const_cast<char* const*>(arguments), environ);
  posix_spawn_file_actions_destroy(&files);
  posix_spawnattr_destroy(&attributes);
  if (spawned != 0) return fail_errno("spawn", spawned);
  kernel_.put("guest", spec.id, std::to_string(pid));
  if (Result<> done = kernel_.step("driver made"); !done) return std::unexpected(done.error());
  if (Result<> done = spec.attach_network(pid); !done) return std::unexpected(done.error());
  if (Result<> done = kernel_.step("driver end"); !done) return std::unexpected(done.error());
  return sandbox::Running{pid, spec.run_dir + "/agent.sock"};
}

bool FakeDriver::alive(const std::string& id, int pid) {
  return kernel_.content("guest", id) == std::to_string(pid);
}

Result<> FakeDriver::destroy(const sandbox::DriverSpec& spec) {
  if (Result<> done = kernel_.step("driver destroy"); !done) return done;
  const int pid = std::atoi(kernel_.content("guest", spec.id).c_str());
  if (pid > 1) {
    ::kill(pid, SIGKILL);
    ::waitpid(pid, nullptr, 0);  // fails at once if it was a former process's child
  }
  kernel_.remove("guest", spec.id);
  return kernel_.step("driver destroy end");
}

// ---- images ----

Result<sandbox::Image> FakeImages::find(const std::string& name) {
  if (!name.empty() && name != "base")
    return fail(Code::not_found, "no image '" + name + "' on this node");
  sandbox::Image image;
  image.name = "base";
  image.digest = "sha256:00";
  image.directory = "/images/base";
  image.env = {{"PATH", "/usr/bin"}, {"LANG", "C.UTF-8"}};
  return image;
}

Result<std::vector<sandbox::Image>> FakeImages::list() { return std::vector{*find("")}; }

Result<sandbox::Image> FakeImages::build(const std::string&,
                                         const std::function<void(const std::string&)>& progress) {
  progress("unpacking");
  progress("packing");
  return find("");
}

Result<> FakeImages::remove(const std::string& name) {
  const auto image = find(name);
  if (!image) return std::unexpected(image.error());
  return {};
}

// ---- agent ----

namespace {

class FakeProcess : public sandbox::Process {
 public:
  void pause() override { paused = true; }
  void resume() override {
    paused = false;
    if (go_on) go_on();
  }
  bool paused = false;
  std::function<void()> go_on;
};

class FakeAgent : public sandbox::Agent, public std::enable_shared_from_this<FakeAgent> {
 public:
  FakeAgent(FakeKernel& kernel, sandbox::Loop& loop) : kernel_(kernel), loop_(loop) {}

  void health(std::chrono::milliseconds, Done done) override {
    loop_.post([done, result = kernel_.step("agent health")] { done(result); });
  }
  std::shared_ptr<sandbox::Process> start(sandbox::ProcessRequest request,
                                          sandbox::ProcessEvents events) override {
    auto process = std::make_shared<FakeProcess>();
    loop_.post([self = shared_from_this(), process, request = std::move(request),
                events = std::move(events)] { self->run(process, request, events); });
    return process;
  }
  void kill(int pid, int signal, Done done) override {
    loop_.post([self = shared_from_this(), pid, signal, done] {
      const auto found = self->hanging_.find(pid);
      if (found == self->hanging_.end()) return done(fail(Code::not_found, "no such process"));
      const auto exited = found->second;
      self->hanging_.erase(found);
      exited({.code = 0, .signal = signal, .timed_out = false});
      done({});
    });
  }
  void shutdown(std::chrono::milliseconds, Done done) override {
    loop_.post([done] { done({}); });
  }

 private:
  void run(const std::shared_ptr<FakeProcess>& process, const sandbox::ProcessRequest& request,
           const sandbox::ProcessEvents& events) {
    const std::string& name = request.command;
    const auto say = [&](sandbox::Output stream, const std::string& text) {
      events.output(stream, as_bytes(text));
    };
    if (name == "echo") {
      events.started(++pid_);
      std::string text;
      for (const std::string& arg : request.args) text += (text.empty() ? "" : " ") + arg;
      say(sandbox::Output::out, text + "\n");
      return events.exited({});
    }
    if (name == "cat-env") {
      events.started(++pid_);
      const auto found = request.env.find(request.args.at(0));
      say(sandbox::Output::out, found == request.env.end() ? "unset" : found->second);
      return events.exited({});
    }
    if (name == "pwd") {
      events.started(++pid_);
      say(sandbox::Output::out, request.cwd);
      return events.exited({});
    }
    if (name == "whoami") {
      events.started(++pid_);
      say(sandbox::Output::err, request.user);
      return events.exited({});
    }
    if (name == "exit") {
      events.started(++pid_);
      return events.exited({.code = std::atoi(request.args.at(0).c_str())});
    }
    if (name == "signal") {
      events.started(++pid_);
      return events.exited({.code = 0,
                            .signal = std::atoi(request.args.at(0).c_str()),
                            .timed_out = request.args.size() > 1});
    }
    if (name == "bytes") {  // each argument is one piece, in hexadecimal
      events.started(++pid_);
      for (const std::string& hex : request.args) {
        std::string piece;
        for (std::size_t i = 0; i + 1 < hex.size(); i += 2)
          piece += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
        say(sandbox::Output::out, piece);
      }
      return events.exited({});
    }
    if (name == "flood") {
      events.started(++pid_);
      return flood(process, events, std::stoull(request.args.at(0)));
    }
    if (name == "hang") {
      events.started(++pid_);
      say(sandbox::Output::out, "hanging\n");
      hanging_[pid_] = events.exited;
      return;
    }
    events.failed(Error{Code::not_found, name + ": no such executable"});
  }

  // Goes on as long as nobody pauses it, a piece per turn of the loop.
  void flood(const std::shared_ptr<FakeProcess>& process, const sandbox::ProcessEvents& events,
             std::uint64_t left) {
    if (left == 0) return events.exited({});
    if (process->paused) {
      process->go_on = [self = shared_from_this(), weak = std::weak_ptr(process), events, left] {
        const auto again = weak.lock();
        if (!again) return;
        self->loop_.post([self, again, events, left] { self->flood(again, events, left); });
      };
      return;
    }
    const std::string piece(std::min<std::uint64_t>(left, 65536), 'x');
    events.output(sandbox::Output::out, as_bytes(piece));
    loop_.post([self = shared_from_this(), process, events, left = left - piece.size()] {
      self->flood(process, events, left);
    });
  }

  FakeKernel& kernel_;
  sandbox::Loop& loop_;
  int pid_ = 0;
  std::map<int, std::function<void(sandbox::ProcessExit)>> hanging_;
};

}  // namespace

sandbox::AgentConnector fake_agents(FakeKernel& kernel, sandbox::Loop& loop) {
  return [&kernel, &loop](const std::string&) -> std::shared_ptr<sandbox::Agent> {
    return std::make_shared<FakeAgent>(kernel, loop);
  };
}

}  // namespace sallyport::test
