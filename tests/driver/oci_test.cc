// SPDX-License-Identifier: Apache-2.0
// Real containers: the runtime, the id-mapped disk, the limits, the agent as PID 1. Needs root. The
// image is the node's base image if there is one (SALLYPORT_TEST_STATE, default
// /var/lib/sallyport); else a tiny one of busybox, which has no sudo.
#include "driver/oci.h"

#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <thread>

#include "driver/image.h"
#include "driver/oci_config.h"
#include "driver/program.h"
#include "host/cgroup.h"
#include "host/disk.h"
#include "support/live_agent.h"

namespace sallyport::test {
namespace {

namespace fs = std::filesystem;
using driver::CommandExit;
using guest::StartRequest;
using sandbox::DriverSpec;
using namespace std::chrono_literals;

std::string variable(const char* name, const char* otherwise) {
  const char* value = std::getenv(name);
  return value == nullptr ? otherwise : value;
}

void write(const std::string& path, std::string_view text) {
  fs::create_directories(fs::path(path).parent_path());
  std::ofstream(path) << text;
}

// A root of one static program, as an image directory.
std::string make_tiny_image(const std::string& where) {
  const std::string tree = where + "/tree";
  for (const char* folder :
       {"proc", "sys", "dev", "tmp", "run", "root", "vercel", "usr/bin", "usr/sbin", "sbin"}) {
    fs::create_directories(tree + "/" + folder);
  }
  fs::permissions(tree + "/tmp", fs::perms(01777));
  ::chown((tree + "/vercel").c_str(), 1000, 1000);
  write(tree + "/etc/passwd", "root:x:0:0::/root:/bin/sh\nubuntu:x:1000:1000::/vercel:/bin/sh\n");
  write(tree + "/etc/group", "root:x:0:\nubuntu:x:1000:\n");
  fs::create_directories(tree + "/bin");
  fs::copy_file("/bin/busybox", tree + "/bin/busybox");
  std::vector<std::string> applets;
  CHECK(driver::run_program({.argv = {"/bin/busybox", "--list"},
                             .line = [&](std::string_view line) { applets.emplace_back(line); }}));
  for (const auto& applet : applets) {
    if (applet != "busybox") fs::create_symlink("busybox", tree + "/bin/" + applet);
  }
  CHECK(driver::run_program({.argv = {"mkfs.erofs", "--quiet", where + "/root.img", tree}}));
  fs::remove_all(tree);
  return where;
}

class Container : public ::testing::Test {
 protected:
  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "needs root";
    fs::create_directories(run_dir_ + "/sandboxes");
    fs::create_directories(state_dir_ + "/sandboxes");
    auto made = driver::make_oci_driver({.runtime = variable("SALLYPORT_TEST_RUNTIME", "auto"),
                                         .agent = SALLYPORT_STATIC_AGENT,
                                         .run_dir = run_dir_});
    if (!made) GTEST_SKIP() << made.error().message;
    driver_ = std::move(*made);
    if (auto image = driver::load_image(variable("SALLYPORT_TEST_STATE", "/var/lib/sallyport"),
                                        driver::kDefaultImage)) {
      image_dir_ = image->directory;
      full_ = true;
    } else if (fs::exists("/bin/busybox")) {
      image_dir_ = make_tiny_image(state_dir_);
    } else {
      GTEST_SKIP() << "neither a base image nor busybox-static here";
    }
  }
  void TearDown() override {
    client_.reset();
    if (driver_) {
      for (const auto& spec : started_) EXPECT_TRUE(driver_->destroy(spec));
      EXPECT_EQ(driver_->leftovers().value(), std::vector<std::string>{});
      driver_.reset();
      EXPECT_EQ(host::mounts_below(run_dir_).value(), std::vector<std::string>{});
    }
    fs::remove_all(run_dir_);
    fs::remove_all(state_dir_);
  }

  DriverSpec spec(const std::string& name = "a", unsigned slot = 0) {
    const std::string id = "test" + std::to_string(::getpid()) + "_" + name;
    DriverSpec made{.id = id,
                    .hostname = "box",
                    .run_dir = run_dir_ + "/sandboxes/" + id,
                    .state_dir = state_dir_ + "/sandboxes/" + id,
                    .image_dir = image_dir_,
                    // Far from slots that a daemon or another test on this machine uses.
                    .slot = 20'000 + unsigned(::getpid()) % 2000 * 2 + slot,
                    .resources = {},
                    .resolvers = {},
                    .attach_network = {}};
    made.resources.memory_bytes = 256U << 20;
    made.resources.disk_bytes = 256U << 20;
    made.resources.max_pids = 256;
    fs::create_directories(made.run_dir);
    fs::create_directories(made.state_dir);
    return made;
  }
  sandbox::Running start(const DriverSpec& wanted) {
    started_.push_back(wanted);
    auto running = driver_->start(wanted);
    EXPECT_TRUE(running) << running.error().message;
    if (!running) return {};
    connect(*running);
    return *running;
  }
  void connect(const sandbox::Running& running) {
    auto connected = await_on(context_, driver::AgentClient::connect(running.agent_socket, 20s));
    CHECK(connected.has_value());
    client_ = std::move(*connected);
  }
  Ran run(StartRequest request) {
    return await_on(context_, start_and_collect(*client_, std::move(request)));
  }
  Ran sh(const std::string& script, const std::string& user = "ubuntu") {
    return run({.command = "sh", .args = {"-c", script}, .env = {{"PATH", kPath}}, .user = user});
  }

  static constexpr const char* kPath =
      "/vercel/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
  const std::string run_dir_ = "/run/sallyport-test-" + std::to_string(::getpid());
  const std::string state_dir_ = "/tmp/sallyport-test-" + std::to_string(::getpid());
  std::string image_dir_;
  bool full_ = false;
  std::unique_ptr<sandbox::Driver> driver_;
  std::vector<DriverSpec> started_;
  boost::asio::io_context context_;
  std::unique_ptr<driver::AgentClient> client_;
};

// SB-070, SB-073
TEST_F(Container, SB_070_the_default_user_is_ubuntu_at_home) {
  start(spec());
  const Ran ran =
      sh("id -u; id -g; pwd; echo $USER $HOME; touch mine && echo writable; echo $PATH");
  EXPECT_EQ(ran.error, "");
  EXPECT_EQ(ran.out, "1000\n1000\n/vercel\nubuntu /vercel\nwritable\n" + std::string(kPath) + "\n");
  EXPECT_NE(std::string(kPath).find("/vercel/bin"), std::string::npos);  // SB-073
}

// SB-002, SB-070
TEST_F(Container, SB_002_sudo_needs_no_password_and_keeps_the_environment) {
  start(spec());
  if (!full_) GTEST_SKIP() << "the tiny image has no sudo";
  const Ran ran = run({.command = "sudo",
                       .args = {"sh", "-c", "id -u; echo $HOME $X $USER $SUDO_USER $PATH"},
                       .env = {{"PATH", kPath}, {"X", "kept"}}});
  EXPECT_EQ(ran.err, "");
  EXPECT_EQ(ran.out, "0\n/root kept root ubuntu " + std::string(kPath) + "\n");
}

// SB-071 in part, SB-072
TEST_F(Container, SB_071_the_tools_of_a_first_user_are_there) {
  start(spec());
  if (!full_) GTEST_SKIP() << "the tiny image has busybox only";
  const Ran ran =
      sh("for t in bash ls find curl git openssl python python3 dig ip ping nc psql sudo ps less "
         "useradd usermod gpasswd "
         "update-ca-certificates; do PATH=$PATH:/usr/sbin command -v $t >/dev/null || echo missing "
         "$t; done; "
         "python -c 'import ssl; print(1)'; sudo mkdir /shared && sudo useradd -m -s /bin/bash "
         "worker && id -u worker");
  EXPECT_EQ(ran.out, "1\n1001\n") << ran.err;
}

// SB-001, SB-003, SB-004: names, processes and files are its own.
TEST_F(Container, SB_001_host_name_and_processes_are_its_own) {
  start(spec());
  EXPECT_EQ(sh("hostname").out, "box\n");
  EXPECT_EQ(sh("cat /etc/hostname").out, "box\n");
  EXPECT_EQ(sh("cat /proc/1/comm").out, "agent\n");
  EXPECT_EQ(sh("cat /proc/[0-9]*/comm | grep -vxE 'agent|sandbox-keeper|sh|cat|grep'").out, "");
  EXPECT_EQ(sh("hostname changed 2>&1; hostname", "root").out, "changed\n");
  char name[256] = {};
  ::gethostname(name, sizeof name);
  EXPECT_STRNE(name, "changed");
}

TEST_F(Container, resolvers_and_hosts_are_written_and_can_be_changed_inside) {
  auto wanted = spec();
  wanted.resolvers = {*Address::parse("10.209.0.1"), *Address::parse("fd53::1")};
  start(wanted);
  EXPECT_EQ(sh("grep -v '#' /etc/resolv.conf").out, "nameserver 10.209.0.1\nnameserver fd53::1\n");
  EXPECT_NE(sh("cat /etc/hosts").out.find("127.0.1.1\tbox\n"), std::string::npos);
  EXPECT_EQ(sh("echo nameserver 8.8.8.8 > /etc/resolv.conf; rm /etc/hosts; mv /etc/hostname "
               "/etc/hosts; cat /etc/hosts",
               "root")
                .out,
            "box\n");
  EXPECT_EQ(sh("echo x >> /etc/hosts").exit.code == 0, false);  // ubuntu may not
}

// SB-004, SB-022: root inside is nobody outside.
TEST_F(Container, SB_004_root_inside_has_no_power_outside) {
  const auto running = start(spec());
  struct stat about{};
  ASSERT_EQ(::stat(("/proc/" + std::to_string(running.pid)).c_str(), &about), 0);
  EXPECT_GE(about.st_uid, driver::kUidBase);
  EXPECT_EQ(
      sh("echo x > /proc/sys/kernel/hostname_x 2>/dev/null; echo b > /proc/sysrq-trigger", "root")
              .exit.code != 0,
      true);
  EXPECT_NE(sh("mknod /tmp/sda b 8 0", "root").exit.code, 0);
  EXPECT_NE(sh("dmesg", "root").exit.code, 0);
  EXPECT_EQ(sh("cat /proc/1/environ | tr '\\0' '\\n' | grep -c sallyport-test", "root").out, "0\n");
  EXPECT_EQ(sh("ls /dev | tr '\\n' ' '").out.find("sd"), std::string::npos);
  EXPECT_EQ(sh("ls /.sallyport; echo x > /.sallyport/agent", "root").exit.code != 0, true);
  EXPECT_EQ(sh("find / -xdev -name agent.sock 2>/dev/null; find /run /.sallyport -type s").out, "");
}

// FW-008, R-096: the network exists before the agent's first instruction, and there is nothing in
// it but what is put there.
TEST_F(Container, R_096_the_network_is_attached_before_the_agent_runs) {
  auto wanted = spec();
  std::string comm;
  std::string links;
  wanted.attach_network = [&](int pid) -> Result<> {
    std::ifstream(("/proc/" + std::to_string(pid) + "/comm")) >> comm;
    const std::string net = "/proc/" + std::to_string(pid) + "/ns/net";
    std::error_code failed;
    EXPECT_NE(fs::read_symlink(net, failed), fs::read_symlink("/proc/self/ns/net", failed));
    std::ifstream table("/proc/" + std::to_string(pid) + "/net/dev");
    for (std::string line; std::getline(table, line);) {
      if (const auto colon = line.find(':'); colon != std::string::npos)
        links += line.substr(0, colon) + ",";
    }
    return {};
  };
  start(wanted);
  EXPECT_NE(comm, "agent");
  EXPECT_NE(comm, "");
  EXPECT_EQ(links, "    lo,");
}

TEST_F(Container, a_network_that_cannot_be_attached_leaves_nothing) {
  auto wanted = spec();
  wanted.attach_network = [](int) -> Result<> { return fail(Code::internal, "no link today"); };
  const auto running = driver_->start(wanted);
  ASSERT_FALSE(running);
  EXPECT_EQ(running.error().message, "driver: network: no link today");
  EXPECT_EQ(driver_->leftovers().value(), std::vector<std::string>{});
}

// SB-024, SB-027: the limit is the container's, the host and the agent live on.
TEST_F(Container, SB_024_too_much_memory_kills_the_command_only) {
  const auto running = start(spec());
  const Ran ran = sh("x=$(head -c 600000000 /dev/zero | tr '\\0' x); echo survived");
  EXPECT_EQ(ran.out, "");
  EXPECT_EQ(ran.exit.code, 137);
  EXPECT_TRUE(driver_->alive(started_[0].id, running.pid));
  EXPECT_EQ(sh("echo still here").out, "still here\n");
}

// SB-025
TEST_F(Container, SB_025_a_full_disk_is_ENOSPC_inside_only) {
  start(spec());
  const Ran ran =
      sh("dd if=/dev/zero of=big bs=1M count=400; echo status $?; rm big; echo ok > small && cat "
         "small");
  EXPECT_NE(ran.err.find("No space left on device"), std::string::npos) << ran.err;
  EXPECT_EQ(ran.out, "status 1\nok\n");
}

TEST_F(Container, processes_are_limited) {
  start(spec());
  const Ran ran = sh("i=0; while [ $i -lt 400 ]; do sleep 100 & i=$((i+1)); done; echo all");
  EXPECT_NE(ran.out, "all\n");
  EXPECT_TRUE(await_on(context_, client_->kill(ran.pid, SIGKILL)));
}

// SB-023
TEST_F(Container, SB_023_the_guest_sees_as_many_cpus_as_it_may_use) {
  if (std::thread::hardware_concurrency() < 2) GTEST_SKIP() << "one CPU";
  auto wanted = spec();
  wanted.resources.vcpus = 1;
  start(wanted);
  EXPECT_EQ(sh("nproc").out, "1\n");
}

// SB-005 in part: what container engines inside are made of.
TEST_F(Container, SB_005_root_inside_may_use_namespaces_mounts_and_its_own_network) {
  start(spec());
  EXPECT_EQ(sh("mkdir -p /tmp/m && mount -t tmpfs t /tmp/m && echo mounted", "root").out,
            "mounted\n");
  EXPECT_EQ(
      sh("ip link add dummy0 type bridge && ip link show dummy0 >/dev/null && echo linked", "root")
          .out,
      "linked\n");
  EXPECT_EQ(
      sh("unshare -m -p -f sh -c 'mount -t proc p /proc && ls -d /proc/[0-9]* | head -1'", "root")
          .out,
      "/proc/1\n");
  EXPECT_EQ(sh("unshare -Ur id -u").out, "0\n");
}

// SB-006, SB-007 in part
TEST_F(Container, SB_006_tunnels_and_fuse_have_their_devices) {
  start(spec());
  if (fs::exists("/dev/net/tun"))
    EXPECT_EQ(sh("test -c /dev/net/tun && test -w /dev/net/tun && echo yes").out, "yes\n");
  if (fs::exists("/dev/fuse"))
    EXPECT_EQ(sh("test -c /dev/fuse && test -w /dev/fuse && echo yes").out, "yes\n");
}

TEST_F(Container, calls_that_the_filter_refuses_fail_and_their_absence_is_survived) {
  start(spec());
  if (!full_) GTEST_SKIP() << "the tiny image has no python";
  const Ran ran =
      sh("python3 -c \"import ctypes,os\n"
         "c=ctypes.CDLL(None,use_errno=True)\n"
         "for n in (321,298,425,250,323,304,40):\n"
         "    r=c.syscall(n,-1,0,0,0,0,0) if n!=40 else c.socket(40,1,0)\n"
         "    print(r,ctypes.get_errno())\"",
         "root");
  EXPECT_EQ(ran.out, "-1 1\n-1 1\n-1 38\n-1 38\n-1 1\n-1 1\n-1 97\n") << ran.err;
}

// R-107 in a container: sessions, double forks and sudo.
TEST_F(Container, R_107_kill_reaches_everything_that_the_command_started) {
  start(spec());
  auto request =
      StartRequest{.command = "sh",
                   .args = {"-c", "setsid sleep 300 & (setsid setsid sleep 301 &) ; sleep 302"},
                   .env = {{"PATH", kPath}},
                   .timeout_ms = 200};
  EXPECT_EQ(run(request).exit.code, 137);
  EXPECT_EQ(sh("i=0; while grep -qx sleep /proc/[0-9]*/comm 2>/dev/null && [ $i -lt 100 ]; do "
               "i=$((i+1)); sleep 0.01; done; "
               "cat /proc/[0-9]*/comm | grep -cx sleep")
                .out,
            "0\n");
}

// R-108 as PID 1
TEST_F(Container, R_108_no_zombies_are_left) {
  start(spec());
  EXPECT_EQ(sh("i=0; while [ $i -lt 500 ]; do (true &) ; i=$((i+1)); done; echo done").out,
            "done\n");
  EXPECT_EQ(sh("grep -l '^State:.Z' /proc/[0-9]*/status 2>/dev/null | wc -l").out, "0\n");
}

TEST_F(Container, the_disk_stays_over_a_stop_and_the_processes_do_not) {
  const auto wanted = spec();
  const auto first = start(wanted);
  EXPECT_EQ(sh("echo kept > note; echo by root > /root/note", "root").exit.code, 0);
  client_.reset();
  ASSERT_TRUE(driver_->destroy(wanted));
  EXPECT_FALSE(driver_->alive(wanted.id, first.pid));
  auto elsewhere = wanted;
  elsewhere.slot += 1;  // ids are mapped, so the slot may change
  started_.push_back(elsewhere);
  const auto second = start(elsewhere);
  EXPECT_NE(second.pid, first.pid);
  EXPECT_EQ(sh("cat /root/note; stat -c %u /root/note", "root").out, "by root\n0\n");
}

// SB-003
TEST_F(Container, SB_003_two_sandboxes_share_neither_files_nor_processes) {
  start(spec("a", 0));
  EXPECT_EQ(sh("echo secret > /tmp/secret; sleep 600 >/dev/null 2>&1 & echo ok").out, "ok\n");
  start(spec("b", 1));
  EXPECT_EQ(sh("cat /tmp/secret 2>/dev/null; cat /proc/[0-9]*/comm | grep -cx sleep").out, "0\n");
}

// The daemon is killed at any point of the way: a new one clears everything.
class Killed : public Container, public ::testing::WithParamInterface<int> {};

TEST_P(Killed, a_new_daemon_finds_and_clears_what_is_left) {
  const auto wanted = spec();
  const pid_t daemon = ::fork();
  if (daemon == 0) {
    ::setsid();
    auto dying = wanted;
    if (GetParam() < 0) {
      dying.attach_network = [](int) -> Result<> {
        ::kill(::getpid(), SIGKILL);
        return {};
      };
    } else {
      std::thread([] {
        std::this_thread::sleep_for(std::chrono::milliseconds(GetParam()));
        ::kill(::getpid(), SIGKILL);
      }).detach();
    }
    (void)driver_->start(dying);
    ::kill(::getpid(), SIGKILL);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(daemon, &status, 0), daemon);
  ASSERT_TRUE(WIFSIGNALED(status));
  for (const auto& id : driver_->leftovers().value()) EXPECT_EQ(id, wanted.id);
  ASSERT_TRUE(driver_->destroy(wanted));
  EXPECT_EQ(driver_->leftovers().value(), std::vector<std::string>{});
  EXPECT_EQ(host::Cgroup::open(host::container_cgroup_path(wanted.id)).processes(),
            std::vector<pid_t>{});
  EXPECT_EQ(fs::directory_iterator(wanted.run_dir), fs::directory_iterator());
  ASSERT_TRUE(driver_->destroy(wanted));  // again: nothing to do
  start(wanted);
  EXPECT_EQ(sh("echo fresh").out, "fresh\n");
}

// -1: exactly between create and start; the others at some moment of the way.
INSTANTIATE_TEST_SUITE_P(Moments, Killed,
                         ::testing::Values(-1, 0, 10, 20, 30, 40, 50, 60, 80, 100, 150),
                         [](const auto& info) {
                           return info.param < 0 ? "before_start"
                                                 : "after_" + std::to_string(info.param) + "_ms";
                         });

TEST_F(Container, alive_is_not_fooled_by_a_reused_number) {
  const auto running = start(spec());
  EXPECT_TRUE(driver_->alive(started_[0].id, running.pid));
  EXPECT_FALSE(driver_->alive(started_[0].id, ::getpid()));
  EXPECT_FALSE(driver_->alive(started_[0].id, 1));
  EXPECT_FALSE(driver_->alive("another", running.pid));
}

TEST_F(Container, a_missing_image_and_odd_ids_are_refused) {
  auto wanted = spec();
  wanted.image_dir = "/no/such/image";
  EXPECT_EQ(driver_->start(wanted).error().code, Code::not_found);
  wanted.id = "../x";
  EXPECT_EQ(driver_->start(wanted).error().code, Code::invalid);
}

}  // namespace
}  // namespace sallyport::test
