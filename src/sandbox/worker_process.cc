// SPDX-License-Identifier: Apache-2.0
#include "sandbox/worker_process.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <grp.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <optional>

#include "base/check.h"
#include "base/log.h"
#include "firewall/control.h"
#include "host/cgroup.h"
#include "sandbox/worker_channel.h"

namespace sallyport::sandbox {
namespace {

namespace control = firewall::control;

Result<sockaddr_un> unix_address(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path)
    return fail(Code::invalid, path + ": too long for a unix socket");
  std::memcpy(address.sun_path, path.data(), path.size());
  return address;
}

// From /proc/<pid>/status: the owner of /proc/<pid> itself is root for a process that cannot be
// dumped.
std::optional<unsigned> uid_of(int pid) {
  const Fd file(::open(fmt::format("/proc/{}/status", pid).c_str(), O_RDONLY | O_CLOEXEC));
  if (!file) return std::nullopt;
  char text[4096];
  const ssize_t size = ::read(file.get(), text, sizeof text);
  if (size <= 0) return std::nullopt;
  const std::string_view all(text, static_cast<std::size_t>(size));
  const std::size_t line = all.find("\nUid:\t");
  if (line == std::string_view::npos) return std::nullopt;
  unsigned uid = 0;
  const char* const first = all.data() + line + 6;
  if (std::from_chars(first, all.data() + all.size(), uid).ec != std::errc()) return std::nullopt;
  return uid;
}

// A worker lives in the namespace of its daemon, and one namespace has one daemon: workers of
// another are not ours.
std::string network_namespace_of(const std::string& pid) {
  char name[64];
  const ssize_t size = ::readlink(fmt::format("/proc/{}/ns/net", pid).c_str(), name, sizeof name);
  return size > 0 ? std::string(name, static_cast<std::size_t>(size)) : std::string();
}

// The directory is root's alone (0700), so the mode of the socket matters only as a second fence.
Result<Fd> listen_on(const std::string& path) {
  const auto address = unix_address(path);
  if (!address) return std::unexpected(address.error());
  Fd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket) return fail_errno("socket");
  (void)::unlink(path.c_str());
  if (::fchmod(socket.get(), 0600) != 0) return fail_errno("fchmod");
  if (::bind(socket.get(), reinterpret_cast<const sockaddr*>(&*address), sizeof *address) != 0) {
    return fail_errno("bind " + path);
  }
  if (::listen(socket.get(), 4) != 0) return fail_errno("listen " + path);
  return socket;
}

// ---- the child, between fork and exec: async-signal-safe calls only, no allocation, no locks ----

struct ChildPlan {
  const char* program;
  const char* id;
  std::array<int, control::kInheritedEnd> source;  // by target number; below kControl unused
  int go;  // readable once the parent has put us into the cgroup
  unsigned uid;
  rlim_t log_bytes;
  rlim_t open_files;
};

[[noreturn]] void die(const char* step) {
  (void)!::write(2, step, std::strlen(step));
  (void)!::write(2, "\n", 1);
  ::_exit(126);
}

void limit(int which, rlim_t value) {
  const rlimit both{value, value};
  if (::setrlimit(static_cast<__rlimit_resource>(which), &both) != 0) die("worker: setrlimit");
}

[[noreturn]] void become_worker(const ChildPlan& plan) {
  char byte;
  if (::read(plan.go, &byte, 1) != 1) ::_exit(125);  // the daemon died or gave up
  ::setsid();
  // Signals that the daemon's threads block or ignore must not be inherited.
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  for (int number = 1; number < 32; ++number) ::signal(number, SIG_DFL);
  // First all out of the way, then each to its place: a source may sit on another's target.
  std::array<int, control::kInheritedEnd> high{};
  for (int target = control::kControl; target < control::kInheritedEnd; ++target) {
    high[target] = ::fcntl(plan.source[target], F_DUPFD_CLOEXEC, 100);
    if (high[target] < 0) die("worker: dup");
  }
  for (int target = control::kControl; target < control::kInheritedEnd; ++target) {
    if (::dup2(high[target], target) != target) die("worker: dup2");
  }
  const int null = ::open("/dev/null", O_RDONLY);
  if (null < 0 || ::dup2(null, 0) != 0) die("worker: /dev/null");
  if (::dup2(2, 1) != 1) die("worker: stdout");
  if (::syscall(SYS_close_range, control::kInheritedEnd, ~0U, 0) != 0) die("worker: close_range");
  limit(RLIMIT_CORE, 0);
  limit(RLIMIT_FSIZE, plan.log_bytes);
  limit(RLIMIT_NOFILE, plan.open_files);
  limit(RLIMIT_MEMLOCK, 0);
  if (::chdir("/") != 0) die("worker: chdir");
  ::umask(077);
  if (::setgroups(0, nullptr) != 0) die("worker: setgroups");
  if (::setresgid(plan.uid, plan.uid, plan.uid) != 0) die("worker: setresgid");
  if (::setresuid(plan.uid, plan.uid, plan.uid) != 0) die("worker: setresuid");
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) die("worker: no_new_privs");
  const char* const arguments[] = {"sandbox-firewall", plan.id, nullptr};
  const char* const environment[] = {nullptr};
  ::execve(plan.program, const_cast<char* const*>(arguments),
           const_cast<char* const*>(environment));
  die("worker: exec");
}

// ---- the daemon's side ----

class WorkerProcess : public Worker, public std::enable_shared_from_this<WorkerProcess> {
 public:
  WorkerProcess(Loop& loop, ProcessId process, Fd pidfd, bool child)
      : loop_(loop), process_(process), pidfd_(std::move(pidfd)), child_(child) {}
  ~WorkerProcess() override {
    if (channel_) channel_->close();
  }

  void start(Fd socket, WorkerEvents events) {
    channel_ = std::make_shared<WorkerChannel>(
        loop_, std::move(socket),
        WorkerChannel::Events{
            .event =
                [log_full = events.log_full](const json::object& event) {
                  const json::value* name = event.if_contains("event");
                  if (log_full && name->is_string() && name->get_string() == "log_full") log_full();
                },
            // A worker that hung up is of no use to us, and its sandbox not to be left to it.
            .closed =
                [weak = weak_from_this()] {
                  if (auto self = weak.lock()) self->kill();
                }});
    channel_->start();
    watch_ = loop_.on_readable(pidfd_.get(),
                               [weak = weak_from_this(), exited = std::move(events.exited)] {
                                 auto self = weak.lock();
                                 if (!self) return;
                                 self->watch_.reset();
                                 self->reap();
                                 self->channel_->close();
                                 exited();
                               });
  }

  ProcessId process() const override { return process_; }
  void ask(json::object request, Fd passed, std::chrono::milliseconds deadline,
           Answer answer) override {
    channel_->ask(std::move(request), std::move(passed), deadline, std::move(answer));
  }
  void kill() override {
    (void)::syscall(SYS_pidfd_send_signal, pidfd_.get(), SIGKILL, nullptr, 0);
  }

 private:
  void reap() {
    if (!child_) return;  // init reaps the workers of a former daemon
    siginfo_t info{};
    (void)::waitid(P_PIDFD, static_cast<id_t>(pidfd_.get()), &info, WEXITED | WNOHANG);
    log::debug("firewall worker ended", {{"pid", process_.pid}, {"status", info.si_status}});
  }

  Loop& loop_;
  ProcessId process_;
  Fd pidfd_;
  bool child_;
  std::shared_ptr<WorkerChannel> channel_;
  Loop::Handle watch_;
};

class Launcher : public WorkerLauncher {
 public:
  Launcher(Loop& loop, WorkerProgram program) : loop_(loop), program_(std::move(program)) {}
  Result<std::shared_ptr<Worker>> launch(const WorkerSpec& spec, std::vector<Fd> sockets, Fd log,
                                         WorkerEvents events) override;
  Result<std::shared_ptr<Worker>> adopt(const WorkerSpec& spec, ProcessId process,
                                        WorkerEvents events) override;
  Result<> end(const WorkerSpec& spec) override;
  Result<> kill_strays(const std::set<unsigned>& keep_uids) override;

 private:
  Loop& loop_;
  WorkerProgram program_;
};

Result<std::shared_ptr<Worker>> Launcher::launch(const WorkerSpec& spec, std::vector<Fd> sockets,
                                                 Fd log, WorkerEvents events) {
  if (sockets.size() != control::kInheritedEnd - control::kTcp4) {
    return fail(Code::internal, fmt::format("{} worker sockets instead of {}", sockets.size(),
                                            control::kInheritedEnd - control::kTcp4));
  }
  auto listener = listen_on(spec.listen_path);
  if (!listener) return std::unexpected(listener.error());
  int pair[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0)
    return fail_errno("socketpair");
  Fd ours(pair[0]), theirs(pair[1]);
  int pipe[2];
  if (::pipe2(pipe, O_CLOEXEC) != 0) return fail_errno("pipe");
  Fd wait_end(pipe[0]), go_end(pipe[1]);
  auto cgroup = host::Cgroup::create(host::worker_cgroup_path(spec.id),
                                     {.memory_bytes = program_.memory_bytes, .max_pids = 64});
  if (!cgroup) return context("worker cgroup", cgroup.error());

  ChildPlan plan{};
  plan.program = program_.path.c_str();
  plan.id = spec.id.c_str();
  plan.source[control::kControl] = theirs.get();
  plan.source[control::kListen] = listener->get();
  plan.source[control::kLog] = log.get();
  for (std::size_t i = 0; i < sockets.size(); ++i)
    plan.source[control::kTcp4 + i] = sockets[i].get();
  plan.go = wait_end.get();
  plan.uid = spec.uid;
  // The worker says log_full at log_bytes; the hard limit only stops one that has gone mad.
  plan.log_bytes = spec.log_bytes + spec.log_bytes / 4 + (1U << 20);
  plan.open_files = program_.open_files;

  const pid_t pid = ::fork();
  if (pid < 0) return fail_errno("fork");
  if (pid == 0) {
    ::close(go_end.get());  // or our own copy would keep the read from ever ending
    become_worker(plan);
  }
  const auto process = process_id_of(pid);
  Result<Fd> pidfd =
      process ? open_process(*process) : fail(Code::internal, "the firewall worker ended at once");
  if (pidfd) {
    if (Result<> added = cgroup->add(pid); !added) pidfd = context("worker cgroup", added.error());
  }
  if (!pidfd || ::write(go_end.get(), "g", 1) != 1) {
    go_end.reset();  // the child sees the end and exits
    (void)::kill(pid, SIGKILL);
    (void)::waitpid(pid, nullptr, 0);
    return std::unexpected(pidfd ? Error{Code::internal, "the firewall worker ended at once"}
                                 : pidfd.error());
  }
  auto worker = std::make_shared<WorkerProcess>(loop_, *process, *std::move(pidfd), true);
  worker->start(std::move(ours), std::move(events));
  return worker;
}

Result<std::shared_ptr<Worker>> Launcher::adopt(const WorkerSpec& spec, ProcessId process,
                                                WorkerEvents events) {
  auto pidfd = open_process(process);
  if (!pidfd) return context("worker", pidfd.error());
  const auto address = unix_address(spec.listen_path);
  if (!address) return std::unexpected(address.error());
  Fd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!socket) return fail_errno("socket");
  if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&*address), sizeof *address) != 0) {
    return fail_errno("connect " + spec.listen_path);
  }
  auto worker = std::make_shared<WorkerProcess>(loop_, process, *std::move(pidfd), false);
  worker->start(std::move(socket), std::move(events));
  return worker;
}

// Its cgroup knows it even when no pid was noted: the child waits to be put there before it does
// anything.
Result<> Launcher::end(const WorkerSpec& spec) {
  if (Result<> done = host::Cgroup::open(host::worker_cgroup_path(spec.id)).destroy(); !done) {
    return context("worker cgroup", done.error());
  }
  (void)::unlink(spec.listen_path.c_str());
  return {};
}

// Whoever runs under a worker uid and is not kept: found by uid, because a daemon that was killed
// between fork and its note in the store knows no pid.
Result<> Launcher::kill_strays(const std::set<unsigned>& keep_uids) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (true) {
    bool found = false;
    DIR* const proc = ::opendir("/proc");
    if (proc == nullptr) return fail_errno("/proc");
    while (const dirent* entry = ::readdir(proc)) {
      int pid = 0;
      const char* const end = entry->d_name + std::strlen(entry->d_name);
      if (std::from_chars(entry->d_name, end, pid).ptr != end || pid <= 1) continue;
      const auto uid = uid_of(pid);
      if (!uid || *uid < program_.uid_first || *uid > program_.uid_last) continue;
      if (network_namespace_of(fmt::format("{}", pid)) != network_namespace_of("self")) continue;
      const auto process = process_id_of(pid);
      if (keep_uids.contains(*uid) || !process) continue;
      const auto pidfd = open_process(*process);
      if (!pidfd) continue;
      found = true;
      (void)::syscall(SYS_pidfd_send_signal, pidfd->get(), SIGKILL, nullptr, 0);
      pollfd gone{pidfd->get(), POLLIN, 0};
      (void)::poll(&gone, 1, 1000);
    }
    ::closedir(proc);
    if (!found) return {};
    if (std::chrono::steady_clock::now() > deadline)
      return fail(Code::timed_out, "stray firewall workers do not die");
  }
}

}  // namespace

std::unique_ptr<WorkerLauncher> worker_processes(Loop& loop, WorkerProgram program) {
  return std::make_unique<Launcher>(loop, std::move(program));
}

}  // namespace sallyport::sandbox
