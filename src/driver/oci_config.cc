// SPDX-License-Identifier: Apache-2.0
#include "driver/oci_config.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "driver/image_setup.h"
#include "driver/seccomp_profile.h"

namespace sallyport::driver {
namespace {

constexpr const char* kAgentInside = "/.sallyport/agent";
constexpr std::uint64_t kOpenFiles = 1U << 20;
constexpr std::int64_t kCpuPeriodUs = 100'000;

// Every capability but those that the kernel asks for in its first user namespace only, where these
// processes never are. Without them programs learn at once that they cannot, and a kernel bug in
// such a check has nothing to hold on to. Left out: SYS_MODULE, SYS_RAWIO, SYS_TIME, SYS_BOOT,
// SYS_PACCT, SYS_TTY_CONFIG, SYSLOG, MAC_*, AUDIT_CONTROL, AUDIT_READ, BPF, PERFMON,
// CHECKPOINT_RESTORE, WAKE_ALARM, BLOCK_SUSPEND, LINUX_IMMUTABLE.
constexpr std::array kCapabilities = {"CAP_AUDIT_WRITE",
                                      "CAP_CHOWN",
                                      "CAP_DAC_OVERRIDE",
                                      "CAP_DAC_READ_SEARCH",
                                      "CAP_FOWNER",
                                      "CAP_FSETID",
                                      "CAP_IPC_LOCK",
                                      "CAP_IPC_OWNER",
                                      "CAP_KILL",
                                      "CAP_LEASE",
                                      "CAP_MKNOD",
                                      "CAP_NET_ADMIN",
                                      "CAP_NET_BIND_SERVICE",
                                      "CAP_NET_BROADCAST",
                                      "CAP_NET_RAW",
                                      "CAP_SETFCAP",
                                      "CAP_SETGID",
                                      "CAP_SETPCAP",
                                      "CAP_SETUID",
                                      "CAP_SYS_ADMIN",
                                      "CAP_SYS_CHROOT",
                                      "CAP_SYS_NICE",
                                      "CAP_SYS_PTRACE",
                                      "CAP_SYS_RESOURCE"};

// Defence in depth: all of these belong to the host's root, who is nobody inside.
constexpr std::array kMasked = {"/proc/acpi",
                                "/proc/asound",
                                "/proc/kcore",
                                "/proc/keys",
                                "/proc/latency_stats",
                                "/proc/timer_list",
                                "/proc/timer_stats",
                                "/proc/sched_debug",
                                "/proc/scsi",
                                "/sys/firmware",
                                "/sys/devices/virtual/powercap"};
constexpr std::array kReadOnly = {"/proc/bus", "/proc/fs", "/proc/irq", "/proc/sysrq-trigger"};

template <class List>
json::array strings(const List& list) {
  json::array out;
  for (const auto& text : list) out.emplace_back(text);
  return out;
}

json::object rlimit(const char* type, std::uint64_t value) {
  return {{"type", type}, {"soft", value}, {"hard", value}};
}

json::object process(const OciSpec& spec, const OciMachine& machine) {
  std::string resolvers;
  for (const auto& address : spec.resolvers)
    resolvers += (resolvers.empty() ? "" : ",") + address.to_string();
  const json::array capabilities = strings(kCapabilities);
  return {
      {"terminal", false},
      {"user", json::object{{"uid", 0}, {"gid", 0}}},
      {"args", json::array{kAgentInside}},
      {"cwd", "/"},
      {"env", json::array{"PATH=" + std::string(kPath), "SALLYPORT_HOSTNAME=" + spec.hostname,
                          "SALLYPORT_RESOLVERS=" + resolvers}},
      // Inheritable stays empty, so that becoming `ubuntu` leaves nothing behind.
      {"capabilities", json::object{{"bounding", capabilities},
                                    {"effective", capabilities},
                                    {"permitted", capabilities},
                                    {"inheritable", json::array{}},
                                    {"ambient", json::array{}}}},
      // A core limit of 1 is the one value that also keeps the kernel from starting the host's
      // crash collector (core_pattern "|program", which ignores 0).
      {"rlimits", json::array{rlimit("RLIMIT_NOFILE", std::min(kOpenFiles, machine.max_open_files)),
                              rlimit("RLIMIT_CORE", 1)}},
      {"oomScoreAdj", 100},  // before the host's own; commands are at 300, so the agent goes last
      {"noNewPrivileges", false}};  // sudo (SB-002); root inside is nobody outside
}

json::object mount(const char* where, const char* type, const char* what, json::array options) {
  return {
      {"destination", where}, {"type", type}, {"source", what}, {"options", std::move(options)}};
}

json::array mounts(const OciSpec& spec, const OciMachine& machine) {
  const std::string shm =
      "size=" + std::to_string(std::max<std::uint64_t>(spec.resources.memory_bytes / 2, 64U << 20));
  json::array out{
      mount("/proc", "proc", "proc", {"nosuid", "noexec", "nodev"}),
      mount("/dev", "tmpfs", "tmpfs", {"nosuid", "noexec", "strictatime", "mode=755", "size=1m"}),
      mount("/dev/pts", "devpts", "devpts",
            {"nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620", "gid=5"}),
      mount("/dev/shm", "tmpfs", "shm",
            {"nosuid", "noexec", "nodev", "mode=1777", json::string(shm)}),
      mount("/dev/mqueue", "mqueue", "mqueue", {"nosuid", "noexec", "nodev"}),
      mount("/sys", "sysfs", "sysfs", {"nosuid", "noexec", "nodev", "ro"}),
      mount("/sys/fs/cgroup", "cgroup", "cgroup",
            {"nosuid", "noexec", "nodev", "relatime", machine.cgroup2 ? "rw" : "ro"}),
      mount("/run", "tmpfs", "tmpfs", {"nosuid", "nodev", "mode=755", "size=64m"}),
  };
  out.push_back(mount(kAgentInside, "bind", spec.agent.c_str(), {"bind", "ro", "nosuid", "nodev"}));
  // Tunnels and FUSE act on the sandbox's own namespaces (SB-006, SB-007).
  if (!machine.tun.empty())
    out.push_back(mount("/dev/net/tun", "bind", machine.tun.c_str(), {"bind", "nosuid", "noexec"}));
  if (!machine.fuse.empty())
    out.push_back(mount("/dev/fuse", "bind", machine.fuse.c_str(), {"bind", "nosuid", "noexec"}));
  return out;
}

json::array namespaces() {
  json::array out;
  // "network" without a path: new, and owned by the new user namespace, so that root inside may use
  // nft, bridges and tunnels in it. It has no way out until the supervisor moves a link in.
  for (const char* type : {"user", "network", "pid", "ipc", "uts", "mount", "cgroup"}) {
    out.push_back(json::object{{"type", type}});
  }
  return out;
}

// `vcpus` neighbouring CPUs, starting where the sandbox before this one ended: the guest sees as
// many as it may use (SB-023).
std::string cpu_list(unsigned vcpus, unsigned cpus, unsigned slot) {
  std::string list;
  for (unsigned i = 0; i < vcpus; ++i) {
    list += (i > 0 ? "," : "") + std::to_string((std::uint64_t(slot) * vcpus + i) % cpus);
  }
  return list;
}

json::object resources(const OciSpec& spec, const OciMachine& machine) {
  const auto& limit = spec.resources;
  json::array devices{json::object{{"allow", false}, {"access", "rwm"}}};
  const auto allow = [&devices](int major, json::value minor) {
    json::object rule{{"allow", true}, {"type", "c"}, {"major", major}, {"access", "rwm"}};
    if (!minor.is_null()) rule["minor"] = std::move(minor);
    devices.push_back(std::move(rule));
  };
  for (const int minor : {3, 5, 7, 8, 9}) allow(1, minor);  // null zero full random urandom
  for (const int minor : {0, 1, 2}) allow(5, minor);        // tty console ptmx
  allow(136, nullptr);                                      // pts
  allow(10, 200);                                           // net/tun
  allow(10, 229);                                           // fuse
  json::object memory{{"limit", limit.memory_bytes}};
  if (machine.limits_swap)
    memory["swap"] = limit.memory_bytes;  // memory and swap together: no swap
  json::object cpu{{"quota", std::int64_t(limit.vcpus) * kCpuPeriodUs},
                   {"period", kCpuPeriodUs},
                   {"shares", 1024}};
  if (machine.limits_cpuset && limit.vcpus < machine.cpus)
    cpu["cpus"] = cpu_list(limit.vcpus, machine.cpus, spec.slot);
  return {{"devices", std::move(devices)},
          {"memory", std::move(memory)},
          {"cpu", std::move(cpu)},
          {"pids", json::object{{"limit", limit.max_pids}}}};
}

}  // namespace

json::object oci_config(const OciSpec& spec, const OciMachine& machine) {
  const json::array ids{
      json::object{{"containerID", 0}, {"hostID", first_uid(spec.slot)}, {"size", kUidCount}}};
  return {{"ociVersion", "1.0.2"},
          {"process", process(spec, machine)},
          {"root", json::object{{"path", spec.root}, {"readonly", false}}},
          {"hostname", spec.hostname},
          {"mounts", mounts(spec, machine)},
          {"linux", json::object{{"namespaces", namespaces()},
                                 {"uidMappings", ids},
                                 {"gidMappings", ids},
                                 {"cgroupsPath", spec.cgroup},
                                 {"resources", resources(spec, machine)},
                                 {"seccomp", seccomp_profile()},
                                 {"maskedPaths", strings(kMasked)},
                                 {"readonlyPaths", strings(kReadOnly)},
                                 {"rootfsPropagation", "private"}}}};
}

}  // namespace sallyport::driver
