// SPDX-License-Identifier: Apache-2.0
#include "host/disk.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <linux/mount.h>
#include <spawn.h>
#include <sys/fsuid.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <mutex>
#include <thread>
#include <vector>

#include "base/fd.h"
#include "host/loop_device.h"
#include "host/mounts.h"

extern char** environ;

namespace sallyport::host {
namespace {

std::string base_of(const std::string& dir) { return dir + "/base"; }
std::string disk_of(const std::string& dir) { return dir + "/disk"; }
std::string root_of(const std::string& dir) { return dir + "/root"; }

Result<> run_program(std::vector<std::string> arguments) {
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
  posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0);
  pid_t child = -1;
  const int error = posix_spawnp(&child, argv[0], &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) return fail_errno("run " + arguments[0], error);
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (status != 0)
    return fail(Code::internal, arguments[0] + " failed with status " + std::to_string(status));
  return {};
}

// A file written under a temporary name that goes away unless it is kept.
class Draft {
 public:
  explicit Draft(std::string path) : path_(std::move(path)), draft_(path_ + ".XXXXXX") {}
  ~Draft() {
    if (fd_) unlink(draft_.c_str());
  }
  Draft(const Draft&) = delete;
  Result<> open() {
    fd_ = Fd(mkostemp(draft_.data(), O_CLOEXEC));
    if (!fd_) return fail_errno("create " + draft_);
    return {};
  }
  Result<> keep() {
    if (rename(draft_.c_str(), path_.c_str()) != 0) return fail_errno("rename " + draft_);
    fd_.reset();
    return {};
  }
  [[nodiscard]] int fd() const { return fd_.get(); }
  [[nodiscard]] const std::string& name() const { return draft_; }

 private:
  std::string path_, draft_;
  Fd fd_;
};

// No journal: the disk of a sandbox that lived through a crash of the node is checked, not trusted;
// lazy tables keep the empty file system near 1 MB whatever its size.
Result<> make_template(const std::string& path, std::uint64_t bytes) {
  Draft draft(path);
  if (auto ok = draft.open(); !ok) return ok;
  if (ftruncate(draft.fd(), static_cast<off_t>(bytes)) != 0) return fail_errno("size " + path);
  auto made = run_program({"mkfs.ext4", "-q", "-F", "-b", "4096", "-O", "^has_journal", "-m", "0",
                           "-E", "lazy_itable_init=1,nodiscard,root_owner=0:0", draft.name()});
  return made ? draft.keep() : context("format " + path, made.error());
}

Result<> copy_sparse(int from, int to, off_t size) {
  if (ftruncate(to, size) != 0) return fail_errno("size the copy");
  for (off_t at = 0; at < size;) {
    const off_t data = lseek(from, at, SEEK_DATA);
    if (data < 0 && errno == ENXIO) return {};  // only a hole is left
    if (data < 0) return fail_errno("SEEK_DATA");
    const off_t end = lseek(from, data, SEEK_HOLE);
    if (end < 0) return fail_errno("SEEK_HOLE");
    off_t in = data, out = data;
    while (in < end) {
      const ssize_t copied =
          copy_file_range(from, &in, to, &out, static_cast<std::size_t>(end - in), 0);
      if (copied < 0) return fail_errno("copy");
      if (copied == 0) return fail(Code::internal, "the template became shorter");
    }
    at = end;
  }
  return {};
}

bool exists(const std::string& path) {
  struct stat about;
  return stat(path.c_str(), &about) == 0;
}

// squashfs and erofs say who they are: the magic numbers are at 0 and at 1024.
Result<std::string> type_of_image(const std::string& image) {
  const Fd file(open(image.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file) return fail_errno("open " + image);
  std::array<char, 4> head{}, super{};
  if (pread(file.get(), head.data(), 4, 0) != 4)
    return fail(Code::invalid, image + ": too short for an image");
  if (std::string_view(head.data(), 4) == "hsqs") return "squashfs";
  const bool read_super = pread(file.get(), super.data(), 4, 1024) == 4;
  if (read_super && std::string_view(super.data(), 4) == "\xe2\xe1\xf5\xe0") return "erofs";
  return fail(Code::invalid, image + ": neither squashfs nor erofs");
}

Result<> place(Result<Fd> mount, const std::optional<IdRange>& ids, const std::string& at) {
  if (!mount) return std::unexpected(mount.error());
  if (ids) {
    if (auto ok = map_ids(*mount, *ids); !ok) return ok;
  }
  if (auto ok = make_directory(at, 0755); !ok) return ok;
  return place_mount(*mount, at);
}

Result<> mount_disk(const RootSpec& spec) {
  const auto loop = attach_loop(spec.disk_image, false);
  if (!loop) return std::unexpected(loop.error());
  return place(new_mount("ext4", loop->path, {}, MOUNT_ATTR_NODEV | MOUNT_ATTR_NOATIME),
               spec.id_range, disk_of(spec.dir));
}

// Runs `work` on a thread whose file accesses carry the id `owner` and every privilege of ours.
template <class Work>
Result<> as_owner(std::uint32_t owner, Work&& work) {
  Result<> done;
  std::thread([&] {
    setfsgid(owner);
    setfsuid(
        owner);  // takes the file privileges out of the effective set; they are still permitted
    __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
    __user_cap_data_struct sets[2]{};
    if (syscall(SYS_capget, &header, sets) != 0) {
      done = fail_errno("capget");
      return;
    }
    for (auto& set : sets) set.effective = set.permitted;
    if (syscall(SYS_capset, &header, sets) != 0) {
      done = fail_errno("capset");
      return;
    }
    done = work();
  }).join();
  return done;
}

Result<> mount_overlay(const RootSpec& spec) {
  const std::string upper = disk_of(spec.dir) + "/upper";
  const std::string work = disk_of(spec.dir) + "/work";
  const auto mount = [&]() -> Result<> {
    if (auto ok = make_directory(upper, 0755); !ok) return ok;
    if (auto ok = make_directory(work, 0700); !ok) return ok;
    auto overlay = new_mount(
        "overlay", "overlay",
        {{"lowerdir", base_of(spec.dir)}, {"upperdir", upper}, {"workdir", work}, {"xino", "off"}},
        MOUNT_ATTR_NODEV | MOUNT_ATTR_NOATIME);
    return place(std::move(overlay), std::nullopt, root_of(spec.dir));
  };
  // Through an id-mapped mount only mapped ids may create files, and overlayfs works with the
  // identity of whoever mounted it: so that has to be the sandbox's root, with our privileges.
  return spec.id_range ? as_owner(spec.id_range->first, mount) : mount();
}

Result<> assemble(const RootSpec& spec) {
  if (auto ok = mount_base(spec.base_image, spec.base_mount); !ok) return ok;
  if (auto ok = place(clone_mount(spec.base_mount), spec.id_range, base_of(spec.dir)); !ok)
    return ok;
  if (auto ok = mount_disk(spec); !ok) return ok;
  return mount_overlay(spec);
}

}  // namespace

Result<> create_disk(const std::string& path, std::uint64_t bytes,
                     const std::string& template_dir) {
  static std::mutex one_template_at_a_time;
  const std::string source = template_dir + "/empty-" + std::to_string(bytes) + ".ext4";
  {
    const std::lock_guard lock(one_template_at_a_time);
    if (!exists(source)) {
      if (auto made = make_template(source, bytes); !made) return made;
    }
  }
  const Fd from(open(source.c_str(), O_RDONLY | O_CLOEXEC));
  if (!from) return fail_errno("open " + source);
  Draft draft(path);
  if (auto ok = draft.open(); !ok) return ok;
  if (auto ok = copy_sparse(from.get(), draft.fd(), static_cast<off_t>(bytes)); !ok)
    return context("copy " + source, ok.error());
  return draft.keep();
}

Result<> mount_base(const std::string& image, const std::string& mount_point) {
  static std::mutex one_at_a_time;
  const std::lock_guard lock(one_at_a_time);
  const auto mounted = is_mount_point(mount_point);
  if (!mounted) return std::unexpected(mounted.error());
  if (*mounted) return {};
  const auto type = type_of_image(image);
  if (!type) return std::unexpected(type.error());
  const auto loop = attach_loop(image, true);
  if (!loop) return std::unexpected(loop.error());
  auto mount = new_mount(*type, loop->path, {{"ro", ""}},
                         MOUNT_ATTR_RDONLY | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOATIME);
  return place(std::move(mount), std::nullopt, mount_point);
}

Result<> unmount_base(const std::string& mount_point) {
  if (auto gone = unmount_all(mount_point); !gone) return gone;
  if (rmdir(mount_point.c_str()) != 0 && errno != ENOENT) return fail_errno("rmdir " + mount_point);
  return {};
}

Result<Mounted> mount_root(const RootSpec& spec) {
  const Mounted result{root_of(spec.dir)};
  const auto mounted = is_mount_point(result.root);
  if (!mounted) return std::unexpected(mounted.error());
  if (*mounted) return result;
  if (auto clean = unmount_root(spec.dir); !clean) return std::unexpected(clean.error());
  if (!exists(spec.disk_image)) {
    const std::string beside = spec.disk_image.substr(0, spec.disk_image.rfind('/'));
    if (auto made = create_disk(spec.disk_image, spec.disk_bytes,
                                spec.template_dir.empty() ? beside : spec.template_dir);
        !made) {
      return std::unexpected(made.error());
    }
  }
  auto made = assemble(spec);
  if (made) return result;
  (void)unmount_root(spec.dir);
  return context("root file system", made.error());
}

Result<> unmount_root(const std::string& dir) {
  for (const std::string& path : {root_of(dir), disk_of(dir), base_of(dir)}) {
    if (auto gone = unmount_all(path); !gone) return gone;
    if (rmdir(path.c_str()) != 0 && errno != ENOENT) return fail_errno("rmdir " + path);
  }
  return {};
}

Result<std::vector<std::string>> mounts_below(const std::string& prefix) {
  std::ifstream table("/proc/self/mountinfo");
  if (!table) return fail(Code::internal, "cannot read /proc/self/mountinfo");
  std::vector<std::string> found;
  for (std::string line; std::getline(table, line);) {
    std::size_t at = 0;
    for (int field = 0; field < 4 && at != std::string::npos; ++field)
      at = line.find(' ', at + (field > 0 ? 1 : 0));
    if (at == std::string::npos) continue;
    const std::string path = line.substr(at + 1, line.find(' ', at + 1) - at - 1);
    if (path.starts_with(prefix + "/")) found.push_back(path);
  }
  std::ranges::sort(found, std::greater<>(), &std::string::size);
  return found;
}

}  // namespace sallyport::host
