// SPDX-License-Identifier: Apache-2.0
#include "guest/keeper.h"

#include <fcntl.h>
#include <grp.h>
#include <linux/close_range.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <algorithm>
#include <cerrno>
#include <string_view>

#include "base/check.h"

namespace sallyport::guest {
namespace {

// Descriptors in the keeper and, up to kFailure, in the child before exec.
constexpr int kReport = 3;
constexpr int kFailure = 4;
constexpr int kFirstOther = 6;
constexpr std::string_view kOomScore =
    "300";  // the kernel takes commands before the agent (SB-024)

struct Failure {
  Stage stage;
  std::int32_t error;
};

struct CStrings {
  explicit CStrings(const std::vector<std::string>& strings) {
    for (const auto& text : strings) pointers.push_back(const_cast<char*>(text.c_str()));
    pointers.push_back(nullptr);
  }
  std::vector<char*> pointers;
};

bool take_identity(const Account& account) {
  if (::geteuid() != 0)
    return account.uid == ::geteuid();  // only in tests: PID 1 of a container is root
  return ::setgroups(account.groups.size(), account.groups.data()) == 0 &&
         ::setresgid(account.gid, account.gid, account.gid) == 0 &&
         ::setresuid(account.uid, account.uid, account.uid) == 0;
}

bool enter_directory(const Plan& plan) {
  if (!plan.cwd.starts_with('/') && ::chdir(plan.account.home.c_str()) != 0) return false;
  return plan.cwd.empty() || ::chdir(plan.cwd.c_str()) == 0;
}

void exec_file(const std::string& file, const CStrings& argv, const CStrings& env) {
  ::execve(file.c_str(), argv.pointers.data(), env.pointers.data());
  if (errno != ENOEXEC) return;
  // A script without #! runs under sh, as every shell and execvp do.
  std::vector<char*> shell{const_cast<char*>("/bin/sh"), const_cast<char*>(file.c_str())};
  shell.insert(shell.end(), argv.pointers.begin() + 1, argv.pointers.end());
  ::execve("/bin/sh", shell.data(), env.pointers.data());
}

// Returns the errno that says most: "permission denied" on one candidate beats "not found" on the
// others.
int exec_by_path(const Plan& plan, const CStrings& argv, const CStrings& env) {
  const std::string& name = plan.argv[0];
  if (name.find('/') != std::string::npos) {
    exec_file(name, argv, env);
    return errno;
  }
  int best = ENOENT;
  std::string_view rest = plan.path;
  while (!rest.empty()) {
    const auto colon = rest.find(':');
    const std::string_view folder = rest.substr(0, colon);
    rest = colon == std::string_view::npos ? std::string_view{} : rest.substr(colon + 1);
    exec_file((folder.empty() ? "." : std::string(folder)) + "/" + name, argv, env);
    if (errno == EACCES) best = EACCES;
    if (errno != ENOENT && errno != ENOTDIR && errno != EACCES && errno != ELOOP) return errno;
  }
  return best;
}

void reset_signals() {
  for (int signal = 1; signal < NSIG; ++signal) ::signal(signal, SIG_DFL);
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
}

void raise_oom_score() {
  const int file = ::open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
  if (file < 0) return;  // no /proc: the limit still holds, only the choice of victim is worse
  [[maybe_unused]] const ssize_t written = ::write(file, kOomScore.data(), kOomScore.size());
  ::close(file);
}

[[noreturn]] void become_command(const Plan& plan) {
  const CStrings argv(plan.argv);
  const CStrings env(plan.env);
  ::setsid();
  ::umask(022);
  raise_oom_score();
  Failure failure{Stage::exec, 0};
  if (!take_identity(plan.account)) {
    failure = {Stage::identity, errno};
  } else if (!enter_directory(plan)) {
    failure = {Stage::cwd, errno};
  } else {
    reset_signals();
    failure.error = exec_by_path(plan, argv, env);
  }
  [[maybe_unused]] const ssize_t written = ::write(kFailure, &failure, sizeof failure);
  ::_exit(127);
}

void tell(Report report) {
  // The agent may be gone; the keeper's duty to reap does not depend on it.
  ::send(kReport, &report, sizeof report, MSG_NOSIGNAL);
}

// 0 and 1: how the start went; the read ends when exec closes the pipe.
bool report_start(int failure_end, pid_t child) {
  Failure failure{};
  ssize_t got = 0;
  do got = ::read(failure_end, &failure, sizeof failure);
  while (got < 0 && errno == EINTR);
  ::close(failure_end);
  if (got == sizeof failure) {
    tell({Report::Kind::failed, std::int32_t(failure.stage), failure.error});
    return false;
  }
  tell({Report::Kind::started, child, 0});
  return true;
}

[[noreturn]] void keep(const Plan& plan) {
  ::prctl(PR_SET_NAME, "sandbox-keeper");
  sigset_t all;
  ::sigfillset(&all);
  ::sigprocmask(SIG_SETMASK, &all, nullptr);
  ::signal(SIGCHLD, SIG_DFL);
  ::setsid();
  int failure[2];
  if (::prctl(PR_SET_CHILD_SUBREAPER, 1) != 0 || ::pipe2(failure, O_CLOEXEC) != 0 ||
      failure[0] != 4) {
    tell({Report::Kind::failed, std::int32_t(Stage::prepare), errno});
    ::_exit(1);
  }
  ::dup3(failure[0], kFirstOther, O_CLOEXEC);
  ::dup3(failure[1], kFailure, O_CLOEXEC);
  ::close(failure[1]);
  const pid_t child = ::fork();
  if (child == 0) become_command(plan);
  const int fork_error = errno;
  ::close(kFailure);
  ::dup2(STDIN_FILENO, STDOUT_FILENO);  // the keeper must not hold the command's pipes open
  ::dup2(STDIN_FILENO, STDERR_FILENO);
  if (child < 0) {
    tell({Report::Kind::failed, std::int32_t(Stage::prepare), fork_error});
    ::_exit(1);
  }
  bool reporting = report_start(kFirstOther, child);
  for (;;) {
    int status = 0;
    const pid_t reaped = ::waitpid(-1, &status, 0);
    if (reaped < 0 && errno != EINTR) ::_exit(0);  // ECHILD: the tree is gone
    if (reaped != child || !reporting) continue;
    tell({Report::Kind::exited, status, 0});
    reporting = false;  // a later process may get the same number
    ::close(kReport);
  }
}

Result<> make_pipe(Fd& read_end, Fd& write_end, const Account& account) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return fail_errno("pipe");
  read_end.reset(ends[0]);
  write_end.reset(ends[1]);
  ::fcntl(ends[0], F_SETFL, O_NONBLOCK);
  // So that the account can open /dev/stdout and /dev/stderr, which lead to these pipes.
  if (::geteuid() == 0 && ::fchown(ends[1], account.uid, account.gid) != 0)
    return fail_errno("chown of a pipe");
  return {};
}

}  // namespace

Result<Spawned> spawn(const Plan& plan) {
  CHECK(!plan.argv.empty());
  Spawned spawned;
  Fd out;
  Fd err;
  if (auto made = make_pipe(spawned.out, out, plan.account); !made)
    return std::unexpected(made.error());
  if (auto made = make_pipe(spawned.err, err, plan.account); !made)
    return std::unexpected(made.error());
  int report[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, report) != 0)
    return fail_errno("socketpair");
  spawned.report.reset(report[0]);
  ::fcntl(report[0], F_SETFL, O_NONBLOCK);
  const Fd keeper_end(report[1]);
  const Fd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
  if (!null) return fail_errno("open /dev/null");
  // main() keeps 0 to 3 occupied, so no source below is overwritten before it is copied.
  CHECK(std::min({out.get(), err.get(), keeper_end.get(), null.get()}) > kReport);

  spawned.keeper = ::fork();
  if (spawned.keeper < 0) return fail_errno("fork");
  if (spawned.keeper > 0) return spawned;
  ::dup2(null.get(), STDIN_FILENO);
  ::dup2(out.get(), STDOUT_FILENO);
  ::dup2(err.get(), STDERR_FILENO);
  ::dup3(keeper_end.get(), kReport, O_CLOEXEC);
  ::close_range(kReport + 1, ~0U, 0);
  keep(plan);
}

}  // namespace sallyport::guest
