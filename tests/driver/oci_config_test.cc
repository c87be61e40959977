// SPDX-License-Identifier: Apache-2.0
#include "driver/oci_config.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <boost/json/serialize.hpp>
#include <set>

#include "driver/seccomp_profile.h"

namespace sallyport::driver {
namespace {

OciMachine big_machine() {
  return {.cpus = 16,
          .cgroup2 = true,
          .limits_swap = true,
          .limits_cpuset = true,
          .max_open_files = 4096,
          .tun = "/run/tun",
          .fuse = {}};
}
OciSpec spec() {
  return {.hostname = "web",
          .root = "/run/x/root",
          .agent = "/run/agent",
          .cgroup = "/sallyport/sbx_1",
          .slot = 3,
          .resources = {.vcpus = 2, .memory_bytes = 1U << 30, .max_pids = 77},
          .resolvers = {*Address::parse("10.209.0.25"), *Address::parse("fd53::1")}};
}
json::object config() { return oci_config(spec(), big_machine()); }
std::set<std::string> names(const json::value& list, const char* field = nullptr) {
  std::set<std::string> out;
  for (const auto& item : list.as_array()) {
    out.emplace(field == nullptr ? std::string_view(item.as_string())
                                 : std::string_view(item.at(field).as_string()));
  }
  return out;
}

TEST(OciConfig, root_inside_is_nobody_outside_and_slots_do_not_overlap) {
  const json::value linux_part = config().at("linux");
  for (const char* map : {"uidMappings", "gidMappings"}) {
    const auto& ids = linux_part.at(map).as_array();
    ASSERT_EQ(ids.size(), 1U);
    EXPECT_EQ(ids[0].at("containerID").to_number<unsigned>(), 0U);
    EXPECT_EQ(ids[0].at("hostID").to_number<unsigned>(), 0x10000000U + 3 * 65536);
    EXPECT_EQ(ids[0].at("size").to_number<unsigned>(), 65536U);
  }
  EXPECT_LT(first_uid(kMaxSlot) + kUidCount, 1900000000U);
}

TEST(OciConfig, every_namespace_is_new) {
  const json::value list = config().at("linux").at("namespaces");
  EXPECT_EQ(names(list, "type"),
            (std::set<std::string>{"user", "network", "pid", "ipc", "uts", "mount", "cgroup"}));
  for (const auto& item : list.as_array()) EXPECT_FALSE(item.as_object().contains("path"));
}

// SB-002: sudo works, so privileges may be gained; nothing is kept on becoming another user.
TEST(OciConfig, SB_002_sudo_is_possible_and_capabilities_do_not_pass_to_ubuntu) {
  const json::value process = config().at("process");
  EXPECT_FALSE(process.at("noNewPrivileges").as_bool());
  EXPECT_TRUE(process.at("capabilities").at("inheritable").as_array().empty());
  EXPECT_TRUE(process.at("capabilities").at("ambient").as_array().empty());
  const auto bounding = names(process.at("capabilities").at("bounding"));
  for (const char* wanted :
       {"CAP_SETUID", "CAP_SETGID", "CAP_NET_ADMIN", "CAP_SYS_ADMIN", "CAP_SYS_CHROOT"}) {
    EXPECT_TRUE(bounding.contains(wanted)) << wanted;
  }
  for (const char* not_wanted : {"CAP_SYS_MODULE", "CAP_SYS_RAWIO", "CAP_SYS_TIME", "CAP_SYS_BOOT",
                                 "CAP_SYSLOG", "CAP_BPF"}) {
    EXPECT_FALSE(bounding.contains(not_wanted)) << not_wanted;
  }
}

// SB-023, SB-024
TEST(OciConfig, limits_are_the_asked_ones) {
  const json::value limits = config().at("linux").at("resources");
  EXPECT_EQ(limits.at("memory").at("limit").to_number<std::uint64_t>(), 1U << 30);
  EXPECT_EQ(limits.at("memory").at("swap").to_number<std::uint64_t>(), 1U << 30);
  EXPECT_EQ(limits.at("cpu").at("quota").to_number<std::int64_t>(), 200'000);
  EXPECT_EQ(limits.at("cpu").at("cpus").as_string(), "6,7");
  EXPECT_EQ(limits.at("pids").at("limit").to_number<int>(), 77);
}

TEST(OciConfig, cpus_wrap_around_and_are_distinct) {
  auto wide = spec();
  wide.resources.vcpus = 5;
  wide.slot = 3;
  const json::value limits = oci_config(wide, big_machine()).at("linux").at("resources");
  EXPECT_EQ(limits.at("cpu").at("cpus").as_string(), "15,0,1,2,3");
}

TEST(OciConfig, limits_that_the_machine_cannot_count_are_left_out) {
  const json::value limits = oci_config(spec(), {.cpus = 2}).at("linux").at("resources");
  EXPECT_FALSE(limits.at("memory").as_object().contains("swap"));
  EXPECT_FALSE(limits.at("cpu").as_object().contains("cpus"));
}

TEST(OciConfig, open_files_stay_below_what_we_may_give) {
  const json::value process = config().at("process");
  for (const auto& limit : process.at("rlimits").as_array()) {
    if (limit.at("type").as_string() == "RLIMIT_NOFILE")
      EXPECT_EQ(limit.at("hard").to_number<int>(), 4096);
    if (limit.at("type").as_string() == "RLIMIT_CORE")
      EXPECT_EQ(limit.at("hard").to_number<int>(), 1);
  }
}

TEST(OciConfig, devices_are_the_harmless_ones) {
  const json::array rules = config().at("linux").at("resources").at("devices").as_array();
  EXPECT_FALSE(rules[0].at("allow").as_bool());
  for (std::size_t i = 1; i < rules.size(); ++i) {
    EXPECT_EQ(rules[i].at("type").as_string(), "c");
    EXPECT_TRUE((std::set{1, 5, 10, 136}).contains(rules[i].at("major").to_number<int>()));
  }
}

TEST(OciConfig, the_only_things_of_the_host_are_the_agent_read_only_and_the_devices_it_has) {
  const json::value mounts = config().at("mounts");
  for (const auto& mount : mounts.as_array()) {
    if (mount.at("type").as_string() != "bind") continue;
    const bool agent = mount.at("source").as_string() == "/run/agent";
    EXPECT_TRUE(agent || mount.at("source").as_string() == "/run/tun");
    EXPECT_EQ(names(mount.at("options")).contains("ro"), agent);
  }
}

TEST(OciConfig, the_agent_learns_name_and_resolvers) {
  const auto env = names(config().at("process").at("env"));
  EXPECT_TRUE(env.contains("SALLYPORT_HOSTNAME=web"));
  EXPECT_TRUE(env.contains("SALLYPORT_RESOLVERS=10.209.0.25,fd53::1"));
}

class Calls : public ::testing::Test {
 protected:
  // Unconditional verdicts only.
  std::string verdict(const std::string& call) {
    const json::value calls = seccomp_profile().at("syscalls");
    for (const auto& rule : calls.as_array()) {
      if (!rule.as_object().contains("args") && names(rule.at("names")).contains(call)) {
        return std::string(rule.at("action").as_string());
      }
    }
    return "default";
  }
};

TEST_F(Calls, dangerous_ones_are_not_allowed) {
  for (const char* call : {"bpf",
                           "perf_event_open",
                           "kexec_load",
                           "kexec_file_load",
                           "init_module",
                           "finit_module",
                           "delete_module",
                           "keyctl",
                           "add_key",
                           "request_key",
                           "userfaultfd",
                           "io_uring_setup",
                           "io_uring_enter",
                           "io_uring_register",
                           "open_by_handle_at",
                           "syslog",
                           "swapon",
                           "acct",
                           "iopl",
                           "ioperm",
                           "modify_ldt",
                           "settimeofday",
                           "clock_settime",
                           "personality",
                           "socket"}) {
    EXPECT_NE(verdict(call), "SCMP_ACT_ALLOW") << call;
  }
  EXPECT_EQ(seccomp_profile().at("defaultAction").as_string(), "SCMP_ACT_ERRNO");
}

TEST_F(Calls, what_sudo_apt_and_engines_need_is_allowed) {
  for (const char* call : {"execve", "clone", "clone3", "setresuid", "setgroups", "mount",
                           "umount2", "pivot_root", "unshare", "setns", "chroot", "ptrace",
                           "seccomp", "mknod", "fanotify_init", "openat2", "close_range"}) {
    EXPECT_EQ(verdict(call), "SCMP_ACT_ALLOW") << call;
  }
}

TEST_F(Calls, no_name_has_two_verdicts) {
  std::set<std::string> seen;
  const json::value calls = seccomp_profile().at("syscalls");
  for (const auto& rule : calls.as_array()) {
    if (rule.as_object().contains("args")) continue;
    for (const auto& name : names(rule.at("names"))) EXPECT_TRUE(seen.insert(name).second) << name;
  }
}

TEST_F(Calls, only_five_socket_families_are_allowed) {
  std::set<int> allowed;
  const json::value calls = seccomp_profile().at("syscalls");
  for (const auto& rule : calls.as_array()) {
    if (!names(rule.at("names")).contains("socket") ||
        rule.at("action").as_string() != "SCMP_ACT_ALLOW")
      continue;
    EXPECT_EQ(rule.at("args").at(0).at("op").as_string(), "SCMP_CMP_EQ");
    allowed.insert(rule.at("args").at(0).at("value").to_number<int>());
  }
  EXPECT_EQ(allowed, (std::set<int>{1, 2, 10, 16, 17}));
}

}  // namespace
}  // namespace sallyport::driver
