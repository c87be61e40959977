// SPDX-License-Identifier: Apache-2.0
#include "host/cgroup.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <climits>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <optional>
#include <thread>

#include "base/fd.h"

namespace sallyport::host {
namespace {

constexpr const char* kTop = "/sys/fs/cgroup";
constexpr const char* kOurs = "/sallyport";

// Where the hierarchies are mounted. `unified` is the v2 one: alone on a pure v2 system, beside the
// v1 ones on a hybrid one.
struct Layout {
  std::optional<std::string> unified;
  bool v2_limits = false;                      // the v2 hierarchy has the controllers
  std::vector<std::string> cpu, memory, pids;  // v1 mount points; cpuacct is in `cpu` too
};

bool exists(const std::string& path) { return access(path.c_str(), F_OK) == 0; }

Layout find_layout() {
  Layout layout;
  if (exists(std::string(kTop) + "/cgroup.controllers")) {
    layout.unified = kTop;
    layout.v2_limits = true;
    return layout;
  }
  const auto add = [](std::vector<std::string>& list, std::initializer_list<const char*> names) {
    for (const auto* name : names) {
      std::string path = std::string(kTop) + "/" + name;
      // A combined mount (cpu,cpuacct) is reachable under both names by symbolic links: one is
      // enough.
      char real[PATH_MAX];
      if (realpath(path.c_str(), real) == nullptr) continue;
      if (exists(std::string(real) + "/cgroup.procs") &&
          std::ranges::find(list, real) == list.end())
        list.emplace_back(real);
    }
  };
  add(layout.cpu, {"cpu", "cpuacct"});
  add(layout.memory, {"memory"});
  add(layout.pids, {"pids"});
  const std::string hybrid = std::string(kTop) + "/unified";
  if (exists(hybrid + "/cgroup.controllers")) layout.unified = hybrid;
  return layout;
}

const Layout& layout() {
  static const Layout found = find_layout();
  return found;
}

// Every hierarchy once.
std::vector<std::string> hierarchies() {
  std::vector<std::string> all;
  for (const auto* list : {&layout().cpu, &layout().memory, &layout().pids})
    all.insert(all.end(), list->begin(), list->end());
  if (layout().unified) all.push_back(*layout().unified);
  std::ranges::sort(all);
  const auto repeated = std::ranges::unique(all);
  all.erase(repeated.begin(), repeated.end());
  return all;
}

Result<> write_file(const std::string& path, const std::string& value) {
  const Fd file(open(path.c_str(), O_WRONLY | O_CLOEXEC));
  if (!file) return fail_errno("open " + path);
  if (write(file.get(), value.data(), value.size()) != static_cast<ssize_t>(value.size()))
    return fail_errno("write " + path);
  return {};
}

std::optional<std::uint64_t> read_number(const std::string& path) {
  std::ifstream file(path);
  std::uint64_t value = 0;
  if (!(file >> value)) return std::nullopt;
  return value;
}

Result<> make_directory(const std::string& path) {
  if (mkdir(path.c_str(), 0755) != 0 && errno != EEXIST) return fail_errno("mkdir " + path);
  return {};
}

// The group itself and every group below it, deepest first.
void collect(const std::string& directory, std::vector<std::string>& out) {
  const std::unique_ptr<DIR, int (*)(DIR*)> open_directory(opendir(directory.c_str()), closedir);
  if (!open_directory) return;
  while (const dirent* entry = readdir(open_directory.get())) {
    const std::string name = entry->d_name;
    if (entry->d_type == DT_DIR && name != "." && name != "..")
      collect(directory + "/" + name, out);
  }
  out.push_back(directory);
}

constexpr std::uint64_t kPeriodUs = 100000;
std::string quota_us(double cpus) {
  return std::to_string(static_cast<std::uint64_t>(cpus * static_cast<double>(kPeriodUs)));
}

Result<> set_v2_limits(const std::string& group, const CgroupLimits& limits) {
  if (limits.cpus > 0) {
    if (auto ok =
            write_file(group + "/cpu.max", quota_us(limits.cpus) + " " + std::to_string(kPeriodUs));
        !ok)
      return ok;
  }
  if (limits.memory_bytes > 0) {
    if (auto ok = write_file(group + "/memory.max", std::to_string(limits.memory_bytes)); !ok)
      return ok;
    (void)write_file(group + "/memory.swap.max", "0");  // not there without swap accounting
    (void)write_file(group + "/memory.oom.group", "1");
  }
  if (limits.max_pids > 0) return write_file(group + "/pids.max", std::to_string(limits.max_pids));
  return {};
}

Result<> set_v1_limits(const std::string& path, const CgroupLimits& limits) {
  // A limit that nobody would enforce is an error, not a wish (I5).
  const bool missing = (limits.cpus > 0 && layout().cpu.empty()) ||
                       (limits.memory_bytes > 0 && layout().memory.empty()) ||
                       (limits.max_pids > 0 && layout().pids.empty());
  if (missing)
    return fail(Code::unavailable,
                "this machine mounts no cgroup controllers for cpu, memory and pids");
  if (limits.cpus > 0) {
    for (const std::string& mount : layout().cpu) {
      if (!exists(mount + path + "/cpu.cfs_quota_us")) continue;
      if (auto ok = write_file(mount + path + "/cpu.cfs_period_us", std::to_string(kPeriodUs)); !ok)
        return ok;
      if (auto ok = write_file(mount + path + "/cpu.cfs_quota_us", quota_us(limits.cpus)); !ok)
        return ok;
    }
  }
  for (const std::string& mount : layout().memory) {
    if (limits.memory_bytes == 0) break;
    const std::string group = mount + path;
    const std::string bytes = std::to_string(limits.memory_bytes);
    // Memory may not be above memory+swap, so whichever way the limit moves one of the two orders
    // is refused.
    if (!write_file(group + "/memory.limit_in_bytes", bytes)) {
      (void)write_file(group + "/memory.memsw.limit_in_bytes", bytes);
      if (auto ok = write_file(group + "/memory.limit_in_bytes", bytes); !ok) return ok;
    }
    (void)write_file(group + "/memory.memsw.limit_in_bytes", bytes);
  }
  for (const std::string& mount : layout().pids) {
    if (limits.max_pids == 0) break;
    if (auto ok = write_file(mount + path + "/pids.max", std::to_string(limits.max_pids)); !ok)
      return ok;
  }
  return {};
}

// A child of a v2 group has only the controllers that its parent hands down.
Result<> hand_down_controllers(const std::string& mount) {
  for (const std::string& group : {mount, mount + kOurs}) {
    for (const auto* controller : {"+cpu", "+memory", "+pids"}) {
      if (auto ok = write_file(group + "/cgroup.subtree_control", controller); !ok) return ok;
    }
  }
  return {};
}

}  // namespace

std::string worker_cgroup_path(const std::string& id) {
  return std::string(kOurs) + "/worker-" + id;
}
std::string container_cgroup_path(const std::string& id) { return std::string(kOurs) + "/" + id; }

Result<Cgroup> Cgroup::create(const std::string& path, const CgroupLimits& limits) {
  for (const std::string& mount : hierarchies()) {
    if (auto ok = make_directory(mount + kOurs); !ok) return std::unexpected(ok.error());
    if (layout().v2_limits) {
      if (auto ok = hand_down_controllers(mount); !ok) return context("cgroup v2", ok.error());
    }
    if (auto ok = make_directory(mount + path); !ok) return std::unexpected(ok.error());
  }
  auto limited = layout().v2_limits ? set_v2_limits(*layout().unified + path, limits)
                                    : set_v1_limits(path, limits);
  if (!limited) return context("cgroup " + path, limited.error());
  return Cgroup(path);
}

Cgroup Cgroup::open(const std::string& path) { return Cgroup(path); }

Result<> Cgroup::add(pid_t pid) const {
  for (const std::string& mount : hierarchies()) {
    if (auto ok = write_file(mount + path_ + "/cgroup.procs", std::to_string(pid)); !ok) return ok;
  }
  return {};
}

std::vector<pid_t> Cgroup::processes() const {
  std::vector<pid_t> pids;
  for (const std::string& mount : hierarchies()) {
    std::vector<std::string> groups;
    collect(mount + path_, groups);
    for (const std::string& group : groups) {
      std::ifstream file(group + "/cgroup.procs");
      for (pid_t pid; file >> pid;) pids.push_back(pid);
    }
  }
  std::ranges::sort(pids);
  const auto repeated = std::ranges::unique(pids);
  pids.erase(repeated.begin(), repeated.end());
  // A zombie is nobody any more; its parent has to reap it, which is not for us to wait for.
  std::erase_if(pids, [](pid_t pid) {
    std::ifstream stat("/proc/" + std::to_string(pid) + "/stat");
    std::string line;
    std::getline(stat, line);
    const auto end = line.rfind(')');
    return end == std::string::npos || end + 2 >= line.size() || line[end + 2] == 'Z' ||
           line[end + 2] == 'X';
  });
  return pids;
}

Result<> Cgroup::kill() const {
  using std::chrono::steady_clock;
  const auto deadline = steady_clock::now() + std::chrono::seconds(5);
  auto pause = std::chrono::microseconds(200);
  for (;;) {
    // One write ends the whole tree at once and cannot be outrun by forks; absent before Linux 5.14
    // and on pure v1.
    if (layout().unified) (void)write_file(*layout().unified + path_ + "/cgroup.kill", "1");
    const auto pids = processes();
    if (pids.empty()) return {};
    for (const pid_t pid : pids) ::kill(pid, SIGKILL);
    if (steady_clock::now() > deadline)
      return fail(Code::timed_out, "cgroup " + path_ + ": processes do not end");
    std::this_thread::sleep_for(pause);
    pause = std::min(pause * 2, std::chrono::microseconds(20000));
  }
}

CgroupStats Cgroup::stats() const {
  CgroupStats stats;
  if (layout().v2_limits) {
    const std::string group = *layout().unified + path_;
    std::ifstream cpu(group + "/cpu.stat");
    std::string name;
    for (std::uint64_t value = 0; cpu >> name >> value;) {
      if (name == "usage_usec") stats.cpu_ns = value * 1000;
    }
    stats.memory_bytes = read_number(group + "/memory.current").value_or(0);
    stats.memory_peak_bytes = read_number(group + "/memory.peak").value_or(0);
    stats.pids = read_number(group + "/pids.current").value_or(0);
    return stats;
  }
  for (const std::string& mount : layout().cpu) {
    if (const auto used = read_number(mount + path_ + "/cpuacct.usage")) stats.cpu_ns = *used;
  }
  for (const std::string& mount : layout().memory) {
    stats.memory_bytes = read_number(mount + path_ + "/memory.usage_in_bytes").value_or(0);
    stats.memory_peak_bytes = read_number(mount + path_ + "/memory.max_usage_in_bytes").value_or(0);
  }
  for (const std::string& mount : layout().pids)
    stats.pids = read_number(mount + path_ + "/pids.current").value_or(0);
  return stats;
}

Result<> Cgroup::destroy() const {
  if (auto dead = kill(); !dead) return dead;
  using std::chrono::steady_clock;
  const auto deadline = steady_clock::now() + std::chrono::seconds(5);
  for (const std::string& mount : hierarchies()) {
    std::vector<std::string> groups;
    collect(mount + path_, groups);
    for (const std::string& group : groups) {
      // EBUSY for the moment in which a dead process has not left its group yet.
      while (rmdir(group.c_str()) != 0) {
        if (errno == ENOENT) break;
        if (errno != EBUSY || steady_clock::now() > deadline) return fail_errno("rmdir " + group);
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
    }
  }
  return {};
}

std::vector<std::string> cgroup_leftovers() {
  std::vector<std::string> names;
  for (const std::string& mount : hierarchies()) {
    const std::unique_ptr<DIR, int (*)(DIR*)> directory(opendir((mount + kOurs).c_str()), closedir);
    if (!directory) continue;
    while (const dirent* entry = readdir(directory.get())) {
      const std::string name = entry->d_name;
      if (entry->d_type == DT_DIR && name != "." && name != "..") names.push_back(name);
    }
  }
  std::ranges::sort(names);
  const auto repeated = std::ranges::unique(names);
  names.erase(repeated.begin(), repeated.end());
  return names;
}

}  // namespace sallyport::host
