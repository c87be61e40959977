// SPDX-License-Identifier: Apache-2.0
#include "daemon/checks.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "base/log.h"
#include "sandbox/directories.h"

namespace sallyport::daemon {
namespace fs = std::filesystem;

Result<> check_machine() {
  if (::geteuid() != 0)
    return fail(Code::denied,
                "sandboxd must run as root: start it with sudo or as a system service");
  std::error_code error;
  for (const char* path :
       {"/proc/self/ns/net", "/sys/fs/cgroup", "/proc/sys/net/ipv4/ip_forward"}) {
    if (!fs::exists(path, error))
      return fail(Code::unavailable,
                  fmt::format("{} is not there: this kernel or container is too limited "
                              "for sandboxes",
                              path));
  }
  if (fs::is_empty("/sys/fs/cgroup", error)) {
    return fail(Code::unavailable,
                "/sys/fs/cgroup is empty: start sandboxd with `nsenter --net=...` rather than `ip "
                "netns exec`, "
                "which hides it");
  }
  return {};
}

Result<Fd> claim_directories(const Config& config) {
  for (const std::string& directory : {config.state_dir, config.run_dir}) {
    std::error_code error;
    fs::create_directories(fs::path(directory).parent_path(), error);
    if (Result<> made = sandbox::make_directory(directory); !made)
      return std::unexpected(made.error());
  }
  // In run_dir the socket lives: others than root may pass through to it, its own mode decides.
  if (::chmod(config.run_dir.c_str(), 0711) != 0) return fail_errno("chmod " + config.run_dir);
  for (const std::string& directory : {config.state_dir, config.run_dir}) {
    if (Result<> made = sandbox::make_directory(directory + "/sandboxes"); !made)
      return std::unexpected(made.error());
  }
  const std::string path = config.state_dir + "/sandboxd.lock";
  Fd lock(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!lock) return fail_errno("open " + path);
  if (::flock(lock.get(), LOCK_EX | LOCK_NB) != 0) {
    return fail(Code::conflict,
                fmt::format("another sandboxd uses {}: stop it first, or set another state_dir",
                            config.state_dir));
  }
  return lock;
}

Result<std::string> program_beside_us(const std::string& name) {
  std::error_code error;
  const fs::path self = fs::read_symlink("/proc/self/exe", error);
  const std::string path = (self.parent_path() / name).string();
  if (error || ::access(path.c_str(), X_OK) != 0) {
    return fail(Code::not_found, fmt::format("{} is missing: it belongs beside sandboxd", path));
  }
  return path;
}

}  // namespace sallyport::daemon
