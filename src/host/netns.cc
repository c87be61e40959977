// SPDX-License-Identifier: Apache-2.0
#include "host/netns.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <sched.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cerrno>
#include <ctime>
#include <memory>

namespace sallyport::host {
namespace {

constexpr const char* kDirectory = "/run/netns";

std::string path_of(const std::string& name) { return std::string(kDirectory) + "/" + name; }

// A shared mount point, as `ip netns` makes it: a name removed here then goes from every copy of
// the mount table, else such a copy would keep the namespace alive.
Result<> prepare_directory() {
  if (mkdir(kDirectory, 0755) != 0 && errno != EEXIST) return fail_errno("mkdir /run/netns");
  const Fd lock(open(kDirectory, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!lock) return fail_errno("open /run/netns");
  if (flock(lock.get(), LOCK_EX) != 0) return fail_errno("lock /run/netns");
  if (mount("", kDirectory, "none", MS_SHARED | MS_REC, nullptr) == 0) return {};
  if (errno != EINVAL) return fail_errno("mount --make-shared /run/netns");
  if (mount(kDirectory, kDirectory, "none", MS_BIND | MS_REC, nullptr) != 0)
    return fail_errno("mount --bind /run/netns");
  if (mount("", kDirectory, "none", MS_SHARED | MS_REC, nullptr) != 0)
    return fail_errno("mount --make-shared /run/netns");
  return {};
}

}  // namespace

Result<Fd> this_namespace() {
  Fd ns(open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC));
  if (!ns) return fail_errno("open /proc/thread-self/ns/net");
  return ns;
}

Result<Fd> namespace_of_process(int pid) {
  const std::string path = "/proc/" + std::to_string(pid) + "/ns/net";
  Fd ns(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!ns) return fail_errno("open " + path);
  return ns;
}

Result<Fd> open_namespace(const std::string& name) {
  Fd ns(open(path_of(name).c_str(), O_RDONLY | O_CLOEXEC));
  if (!ns && errno == ENOENT) return fail(Code::not_found, "no network namespace " + name);
  if (!ns) return fail_errno("open " + path_of(name));
  return ns;
}

Result<Fd> create_namespace(const std::string& name, const std::function<Result<>()>& prepare) {
  if (auto ready = prepare_directory(); !ready) return std::unexpected(ready.error());
  const std::string path = path_of(name);
  Result<> made;
  bool named = false;
  std::thread([&] {
    if (unshare(CLONE_NEWNET) != 0) {
      made = fail_errno("unshare network namespace");
      return;
    }
    if (prepare) made = prepare();
    if (!made) return;
    const Fd file(open(path.c_str(), O_RDONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0));
    if (!file) {
      made = errno == EEXIST ? fail(Code::conflict, "network namespace " + name + " exists")
                             : fail_errno("create " + path);
      return;
    }
    named = true;
    if (mount("/proc/thread-self/ns/net", path.c_str(), "none", MS_BIND, nullptr) != 0)
      made = fail_errno("mount --bind " + path);
  }).join();
  auto ns = made ? open_namespace(name) : Result<Fd>(std::unexpected(made.error()));
  if (!ns && named) (void)remove_namespace(name);
  return ns;
}

Result<> remove_namespace(const std::string& name) {
  const std::string path = path_of(name);
  // The file may carry no mount (a crash between the two steps), or more than one (someone ran `ip
  // netns attach`).
  for (int i = 0; i < 8; ++i) {
    if (umount2(path.c_str(), MNT_DETACH | UMOUNT_NOFOLLOW) == 0) continue;
    if (errno == ENOENT) return {};
    if (errno == EINVAL) break;  // not a mount point (any more)
    return fail_errno("umount " + path);
  }
  if (unlink(path.c_str()) != 0 && errno != ENOENT) return fail_errno("unlink " + path);
  return {};
}

Result<std::vector<std::string>> namespaces_named(const std::string& prefix) {
  std::vector<std::string> names;
  const std::unique_ptr<DIR, int (*)(DIR*)> directory(opendir(kDirectory), closedir);
  if (!directory && errno == ENOENT) return names;
  if (!directory) return fail_errno("open /run/netns");
  while (const dirent* entry = readdir(directory.get())) {
    std::string name = entry->d_name;
    if (name.starts_with(prefix)) names.push_back(std::move(name));
  }
  return names;
}

std::optional<long> age_of_empty_name(const std::string& name) {
  struct statfs system;
  struct stat about;
  const std::string path = path_of(name);
  if (statfs(path.c_str(), &system) != 0 || stat(path.c_str(), &about) != 0) return std::nullopt;
  if (static_cast<unsigned long>(system.f_type) == NSFS_MAGIC) return std::nullopt;
  return time(nullptr) - about.st_mtime;
}

Result<std::uint64_t> namespace_cookie() {
  const Fd any(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!any) return fail_errno("socket");
  std::uint64_t cookie = 0;
  socklen_t length = sizeof cookie;
  if (getsockopt(any.get(), SOL_SOCKET, SO_NETNS_COOKIE, &cookie, &length) != 0)
    return fail_errno("SO_NETNS_COOKIE");
  return cookie;
}

Result<> enter_namespace(const Fd& ns) {
  if (setns(ns.get(), CLONE_NEWNET) != 0) return fail_errno("setns");
  return {};
}

}  // namespace sallyport::host
