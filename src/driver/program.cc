// SPDX-License-Identifier: Apache-2.0
#include "driver/program.h"

#include <fcntl.h>
#include <linux/close_range.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <optional>

#include "base/fd.h"

namespace sallyport::driver {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kMaxTail = 600;
constexpr std::size_t kMaxLine = 4096;
constexpr int kCannotRun = 126;

// After fork in a program with threads: system calls only.
[[noreturn]] void become(const Program& program, char* const* argv, int output, pid_t parent) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(kCannotRun);
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  ::signal(SIGPIPE, SIG_DFL);
  ::umask(022);  // the daemon's own is stricter than what these programs make is meant to be
  if (program.without_hybrid_cgroup) {
    if (::unshare(CLONE_NEWNS) != 0 ||
        ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) {
      ::_exit(kCannotRun);
    }
    ::umount2("/sys/fs/cgroup/unified", MNT_DETACH);
  }
  const int null = ::open("/dev/null", O_RDWR);
  if (output < 0) output = null;
  // Upwards first: the wanted descriptor may be 0 to 3 itself.
  const int pass = program.pass_fd >= 0 ? ::fcntl(program.pass_fd, F_DUPFD, 10) : -1;
  const int out = ::fcntl(output, F_DUPFD, 10);
  ::dup2(null, 0);
  ::dup2(out, 1);
  ::dup2(out, 2);
  if (pass >= 0) ::dup2(pass, 3);
  ::close_range(pass >= 0 ? 4 : 3, ~0U, 0);
  ::execvp(argv[0], argv);
  ::_exit(errno == ENOENT ? 127 : kCannotRun);
}

// Cuts the output into lines and remembers the end of it.
class Lines {
 public:
  explicit Lines(const std::function<void(std::string_view)>& line) : line_(line) {}

  void add(std::string_view bytes) {
    tail_ += bytes;
    if (tail_.size() > kMaxTail) tail_.erase(0, tail_.size() - kMaxTail);
    for (const char c : bytes) {
      if (c == '\n' || c == '\r' || current_.size() >= kMaxLine)
        flush();
      else
        current_ += c;
    }
  }
  void flush() {
    if (!current_.empty()) line_(current_);
    current_.clear();
  }
  [[nodiscard]] const std::string& tail() const { return tail_; }

 private:
  const std::function<void(std::string_view)>& line_;
  std::string current_;
  std::string tail_;
};

int left_ms(Clock::time_point deadline) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
  return int(std::clamp<long>(left, 0, 3'600'000));
}

// Until the process ends; false at the deadline. Reads the output meanwhile.
bool follow(int process, int output, Lines& lines, Clock::time_point deadline) {
  std::array<char, 4096> buffer{};
  for (;;) {
    std::array<pollfd, 2> wait{{{process, POLLIN, 0}, {output, POLLIN, 0}}};
    const int ready = ::poll(wait.data(), wait.size(), left_ms(deadline));
    if (ready == 0) return false;
    if (ready < 0) continue;
    if (wait[1].revents != 0) {
      const ssize_t got = ::read(output, buffer.data(), buffer.size());
      if (got > 0) {
        lines.add({buffer.data(), std::size_t(got)});
        continue;
      }
      output = -1;  // poll skips it from now on
    }
    if (wait[0].revents != 0) return true;
  }
}

Result<> judge(const std::string& name, int status, const std::string& tail) {
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return {};
  std::string message = name;
  if (WIFEXITED(status) && WEXITSTATUS(status) == 127) {
    message += ": not installed";
  } else if (WIFEXITED(status)) {
    message += " failed with status " + std::to_string(WEXITSTATUS(status));
  } else {
    message += " was killed by signal " + std::to_string(WTERMSIG(status));
  }
  if (!tail.empty()) message += ": " + tail;
  while (message.ends_with('\n')) message.pop_back();
  return fail(Code::internal, std::move(message));
}

}  // namespace

Result<> run_program(const Program& program) {
  const auto deadline = Clock::now() + program.limit;
  std::vector<char*> argv;
  for (const auto& text : program.argv) argv.push_back(const_cast<char*>(text.c_str()));
  argv.push_back(nullptr);
  Fd read_end;
  Fd write_end;
  if (program.line) {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) return fail_errno("pipe");
    read_end.reset(ends[0]);
    write_end.reset(ends[1]);
  }
  const pid_t parent = ::getpid();
  const pid_t child = ::fork();
  if (child < 0) return fail_errno("fork");
  if (child == 0) become(program, argv.data(), write_end.get(), parent);
  write_end.reset();
  const Fd process(int(::syscall(SYS_pidfd_open, child, 0)));
  Lines lines(program.line);
  const bool in_time = process && follow(process.get(), read_end.get(), lines, deadline);
  if (!in_time) ::kill(child, SIGKILL);
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (program.line) lines.flush();
  if (!in_time) return fail(Code::timed_out, program.argv[0] + " took too long");
  return judge(program.argv[0], status, lines.tail());
}

}  // namespace sallyport::driver
