// SPDX-License-Identifier: Apache-2.0
#include "sandbox/egress_log.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstdio>

namespace sallyport::sandbox {

std::string egress_log_path(const std::string& state_dir, int age) {
  return age == 0 ? state_dir + "/egress.jsonl" : fmt::format("{}/egress.jsonl.{}", state_dir, age);
}

Result<Fd> open_egress_log(const std::string& state_dir) {
  const std::string path = egress_log_path(state_dir);
  Fd log(::open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0640));
  if (!log) return fail_errno("open " + path);
  return log;
}

Result<std::uint64_t> egress_log_size(const std::string& state_dir) {
  struct stat info{};
  const std::string path = egress_log_path(state_dir);
  if (::stat(path.c_str(), &info) != 0) return fail_errno("stat " + path);
  return static_cast<std::uint64_t>(info.st_size);
}

Result<Fd> rotate_egress_log(const std::string& state_dir) {
  for (int age = kKeptEgressLogs; age > 0; --age) {
    const std::string from = egress_log_path(state_dir, age - 1);
    if (std::rename(from.c_str(), egress_log_path(state_dir, age).c_str()) != 0 &&
        errno != ENOENT) {
      return fail_errno("rename " + from);
    }
  }
  return open_egress_log(state_dir);
}

}  // namespace sallyport::sandbox
