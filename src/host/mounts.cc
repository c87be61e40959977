// SPDX-License-Identifier: Apache-2.0
#include "host/mounts.h"

#include <fcntl.h>
#include <linux/mount.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

// Not <sys/mount.h>: it redefines what <linux/mount.h> has.
extern "C" int umount2(const char* target, int flags) noexcept;

namespace sallyport::host {
namespace {

constexpr int kDetach = 2;    // MNT_DETACH
constexpr int kNoFollow = 8;  // UMOUNT_NOFOLLOW

int call(long number, auto... arguments) { return static_cast<int>(syscall(number, arguments...)); }

// What the file system had to say (its own words are better than EINVAL).
std::string words_of(const Fd& context) {
  std::string words(512, '\0');
  const ssize_t got = read(context.get(), words.data(), words.size());
  if (got <= 0) return {};
  words.resize(static_cast<std::size_t>(got));
  while (!words.empty() && words.back() == '\n') words.pop_back();
  return " (" + words + ")";
}

// A user namespace with the mapping we want, made by a child that ends as soon as we hold it.
Result<Fd> user_namespace(const IdRange& range) {
  // No libc in the child beyond plain system calls: other threads may hold its locks. It keeps
  // nothing of ours open, and a parent that died before it asked to be told is seen by its absence:
  // else it would wait for ever, holding the daemon's lock.
  const pid_t parent = getpid();
  const pid_t child = call(SYS_clone, CLONE_NEWUSER | SIGCHLD, nullptr, nullptr, nullptr, 0UL);
  if (child < 0) return fail_errno("clone a user namespace");
  if (child == 0) {
    syscall(SYS_close_range, 0U, ~0U, 0U);
    syscall(SYS_prctl, PR_SET_PDEATHSIG, SIGKILL, 0UL, 0UL, 0UL);
    if (syscall(SYS_getppid) != parent) syscall(SYS_exit_group, 0);
    for (;;) syscall(SYS_ppoll, nullptr, 0UL, nullptr, nullptr, 0UL);
  }
  const auto finish = [&] {
    kill(child, SIGKILL);
    while (waitpid(child, nullptr, 0) < 0 && errno == EINTR) {
    }
  };
  const std::string process = "/proc/" + std::to_string(child);
  const std::string map = "0 " + std::to_string(range.first) + " " + std::to_string(range.count);
  for (const auto* file : {"/uid_map", "/gid_map"}) {
    const std::string path = process + file;
    const Fd out(open(path.c_str(), O_WRONLY | O_CLOEXEC));
    if (!out || write(out.get(), map.data(), map.size()) != static_cast<ssize_t>(map.size())) {
      auto error = fail_errno("write " + path);
      finish();
      return error;
    }
  }
  Fd ns(open((process + "/ns/user").c_str(), O_RDONLY | O_CLOEXEC));
  const int error = errno;
  finish();
  if (!ns) return fail_errno("open the user namespace", error);
  return ns;
}

}  // namespace

Result<Fd> new_mount(const std::string& type, const std::string& source,
                     const MountOptions& options, unsigned attributes) {
  const Fd context(call(SYS_fsopen, type.c_str(), FSOPEN_CLOEXEC));
  if (!context) return fail_errno("fsopen " + type);
  const auto set = [&](unsigned command, const char* key, const char* value) {
    return call(SYS_fsconfig, context.get(), command, key, value, 0) == 0;
  };
  if (!set(FSCONFIG_SET_STRING, "source", source.c_str()))
    return fail_errno(type + ": source " + source);
  for (const auto& [key, value] : options) {
    const bool ok = value.empty() ? set(FSCONFIG_SET_FLAG, key.c_str(), nullptr)
                                  : set(FSCONFIG_SET_STRING, key.c_str(), value.c_str());
    if (!ok) {
      const int error = errno;
      return fail_errno(type + ": option " + key + words_of(context), error);
    }
  }
  if (!set(FSCONFIG_CMD_CREATE, nullptr, nullptr)) {
    const int error = errno;
    return fail_errno("mount " + type + " of " + source + words_of(context), error);
  }
  Fd mount(call(SYS_fsmount, context.get(), FSMOUNT_CLOEXEC, attributes));
  if (!mount) return fail_errno("fsmount " + type);
  return mount;
}

Result<Fd> clone_mount(const std::string& path) {
  Fd mount(call(SYS_open_tree, AT_FDCWD, path.c_str(), OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC));
  if (!mount) return fail_errno("open_tree " + path);
  return mount;
}

Result<> map_ids(const Fd& mount, const IdRange& range) {
  const auto ns = user_namespace(range);
  if (!ns) return std::unexpected(ns.error());
  mount_attr attributes{};
  attributes.attr_set = MOUNT_ATTR_IDMAP;
  attributes.userns_fd = static_cast<__u64>(ns->get());
  if (call(SYS_mount_setattr, mount.get(), "", AT_EMPTY_PATH, &attributes, sizeof attributes) !=
      0) {
    return fail_errno("id-map a mount");
  }
  return {};
}

Result<> place_mount(const Fd& mount, const std::string& at) {
  if (call(SYS_move_mount, mount.get(), "", AT_FDCWD, at.c_str(), MOVE_MOUNT_F_EMPTY_PATH) != 0) {
    return fail_errno("place mount at " + at);
  }
  return {};
}

Result<bool> is_mount_point(const std::string& path) {
  struct statx about{};
  if (statx(AT_FDCWD, path.c_str(), AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT, 0, &about) != 0) {
    if (errno == ENOENT) return false;
    return fail_errno("stat " + path);
  }
  return (about.stx_attributes & STATX_ATTR_MOUNT_ROOT) != 0;
}

Result<> unmount_all(const std::string& path) {
  constexpr int kStacked = 64;
  for (int i = 0; i < kStacked; ++i) {
    if (umount2(path.c_str(), kDetach | kNoFollow) == 0) continue;
    if (errno == EINVAL || errno == ENOENT) return {};  // not a mount point (any more)
    return fail_errno("umount " + path);
  }
  return fail(Code::internal, "umount " + path + ": it is mounted over and over");
}

Result<> make_directory(const std::string& path, unsigned mode) {
  if (mkdir(path.c_str(), mode) != 0)
    return errno == EEXIST ? Result<>{} : fail_errno("mkdir " + path);
  // The daemon's umask lets nobody else in; this directory may have other readers.
  if (chmod(path.c_str(), mode) != 0) return fail_errno("chmod " + path);
  return {};
}

}  // namespace sallyport::host
