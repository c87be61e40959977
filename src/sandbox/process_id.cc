// SPDX-License-Identifier: Apache-2.0
#include "sandbox/process_id.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <charconv>
#include <string>
#include <string_view>

namespace sallyport::sandbox {

std::optional<ProcessId> process_id_of(int pid) {
  if (pid <= 0) return std::nullopt;
  const Fd file(::open(fmt::format("/proc/{}/stat", pid).c_str(), O_RDONLY | O_CLOEXEC));
  if (!file) return std::nullopt;
  char text[1024];
  const ssize_t size = ::read(file.get(), text, sizeof text);
  if (size <= 0) return std::nullopt;
  // "pid (name) state ..." and the name may hold anything, so count fields from its last
  // parenthesis: state is the first after it, starttime the twentieth.
  std::string_view rest(text, static_cast<std::size_t>(size));
  const std::size_t name_end = rest.rfind(')');
  if (name_end == std::string_view::npos || name_end + 2 >= rest.size()) return std::nullopt;
  rest.remove_prefix(name_end + 2);
  if (rest.front() == 'Z' || rest.front() == 'X') return std::nullopt;
  for (int field = 0; field < 19; ++field) {
    const std::size_t space = rest.find(' ');
    if (space == std::string_view::npos) return std::nullopt;
    rest.remove_prefix(space + 1);
  }
  ProcessId id{pid, 0};
  if (std::from_chars(rest.data(), rest.data() + rest.size(), id.start_time).ec != std::errc())
    return std::nullopt;
  return id;
}

bool is_alive(const ProcessId& process) { return process_id_of(process.pid) == process; }

Result<Fd> open_process(const ProcessId& process) {
  Fd fd(static_cast<int>(::syscall(SYS_pidfd_open, process.pid, 0)));
  if (!fd) return fail_errno(fmt::format("pidfd_open {}", process.pid));
  // The descriptor names whoever has the pid now; only if that is still our process after opening
  // is it ours.
  if (!is_alive(process))
    return fail(Code::not_found, fmt::format("process {} has ended", process.pid));
  return fd;
}

}  // namespace sallyport::sandbox
