// SPDX-License-Identifier: Apache-2.0
#include "guest/process_tree.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>

#include <charconv>
#include <cstdio>
#include <cstring>
#include <memory>
#include <optional>
#include <unordered_map>
#include <unordered_set>

#include "base/fd.h"

namespace sallyport::guest {
namespace {

constexpr int kMaxRounds = 64;

struct Status {
  pid_t parent = 0;
  char state = 'Z';
};

// "pid (comm) S ppid ...": comm may hold anything, so the last ')' is the anchor.
std::optional<Status> read_status(pid_t pid) {
  char path[32];
  std::snprintf(path, sizeof path, "/proc/%d/stat", pid);
  const Fd file(::open(path, O_RDONLY | O_CLOEXEC));
  char text[512];
  const ssize_t got = file ? ::read(file.get(), text, sizeof text - 1) : -1;
  if (got <= 0) return std::nullopt;
  text[got] = '\0';
  const char* after = std::strrchr(text, ')');
  Status status;
  if (after == nullptr || std::sscanf(after + 1, " %c %d", &status.state, &status.parent) != 2)
    return std::nullopt;
  return status;
}

std::optional<pid_t> pid_of(const char* name) {
  pid_t pid = 0;
  const char* end = name + std::strlen(name);
  const auto [stop, error] = std::from_chars(name, end, pid);
  if (error != std::errc{} || stop != end || pid <= 0) return std::nullopt;
  return pid;
}

}  // namespace

std::vector<pid_t> descendants(pid_t root) {
  std::unordered_map<pid_t, std::vector<pid_t>> children;
  std::unordered_set<pid_t> dead;
  const std::unique_ptr<DIR, int (*)(DIR*)> proc(::opendir("/proc"), &::closedir);
  while (proc) {
    const dirent* entry = ::readdir(proc.get());
    if (entry == nullptr) break;
    const auto pid = pid_of(entry->d_name);
    const auto status = pid ? read_status(*pid) : std::nullopt;
    if (!status) continue;
    children[status->parent].push_back(*pid);
    if (status->state == 'Z' || status->state == 'X') dead.insert(*pid);
  }
  // A list of all tasks is not one instant: a cycle cannot be in it, a process seen twice can.
  // `seen` bounds the walk.
  std::vector<pid_t> found;
  std::vector<pid_t> open{root};
  std::unordered_set<pid_t> seen{root};
  while (!open.empty()) {
    const pid_t parent = open.back();
    open.pop_back();
    for (const pid_t child : children[parent]) {
      if (!seen.insert(child).second) continue;
      open.push_back(child);
      if (!dead.contains(child)) found.push_back(child);
    }
  }
  return found;
}

std::size_t signal_tree(pid_t root, int signal) {
  const auto all = descendants(root);
  for (const pid_t pid : all) ::kill(pid, signal);
  return all.size();
}

bool kill_tree(pid_t root) {
  std::unordered_set<pid_t> stopped;
  for (int round = 0; round < kMaxRounds; ++round) {
    bool news = false;
    const auto all = descendants(root);
    for (const pid_t pid : all) {
      if (!stopped.insert(pid).second) continue;
      ::kill(pid, SIGSTOP);
      news = true;
    }
    if (news) continue;
    for (const pid_t pid : all) ::kill(pid, SIGKILL);
    if (all.empty()) return true;
    stopped.clear();  // numbers are reused
  }
  signal_tree(root, SIGKILL);
  return false;
}

}  // namespace sallyport::guest
