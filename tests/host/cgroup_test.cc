// SPDX-License-Identifier: Apache-2.0
// Limits and death of a tree of processes, on whatever cgroup layout this machine has.
#include "host/cgroup.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>

namespace sallyport::host {
namespace {

class CgroupTest : public testing::Test {
 protected:
  ~CgroupTest() override {
    EXPECT_TRUE(Cgroup::open(path_).destroy());
    EXPECT_THAT(cgroup_leftovers(),
                testing::Not(testing::Contains(path_.substr(path_.rfind('/') + 1))));
  }
  Cgroup make(const CgroupLimits& limits) {
    auto made = Cgroup::create(path_, limits);
    EXPECT_TRUE(made) << made.error().message;
    return std::move(*made);
  }
  // A child that waits for a byte, so that it can be put into the group before it does anything.
  template <class Body>
  pid_t child(const Cgroup& group, Body&& body) {
    int gate[2];
    EXPECT_EQ(pipe(gate), 0);
    const pid_t pid = fork();
    if (pid == 0) {
      char byte;
      if (read(gate[0], &byte, 1) != 1) _exit(99);
      _exit(body());
    }
    const auto added = group.add(pid);
    EXPECT_TRUE(added) << added.error().message;
    EXPECT_EQ(write(gate[1], "x", 1), 1);
    close(gate[0]);
    close(gate[1]);
    return pid;
  }
  static int status_of(pid_t pid) {
    int status = 0;
    waitpid(pid, &status, 0);
    return status;
  }

  std::string path_ = container_cgroup_path("cgtest_" + std::to_string(getpid()));
};

TEST_F(CgroupTest, a_process_that_takes_more_memory_than_its_limit_is_killed) {
  const Cgroup group = make({.memory_bytes = 64U << 20});
  const int status = status_of(child(group, [] {
    const std::size_t size = 256U << 20;
    void* memory = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    std::memset(memory, 1, size);
    return 0;
  }));
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
  EXPECT_GE(group.stats().memory_peak_bytes, 32U << 20);
}

TEST_F(CgroupTest, no_more_processes_than_the_limit) {
  const Cgroup group = make({.max_pids = 4});
  const int status = status_of(child(group, [] {
    int forked = 0;
    for (int i = 0; i < 20; ++i) {
      const pid_t pid = fork();
      if (pid == 0) {
        pause();
        _exit(0);
      }
      forked += pid > 0 ? 1 : 0;
    }
    return forked;
  }));
  EXPECT_EQ(WEXITSTATUS(status), 3);
}

TEST_F(CgroupTest, kill_ends_a_tree_that_keeps_forking) {
  const Cgroup group = make({.max_pids = 64});
  const pid_t pid = child(group, [] {
    for (;;) {
      if (fork() < 0) usleep(1000);
    }
    return 0;
  });
  EXPECT_TRUE(group.kill());
  EXPECT_TRUE(WIFSIGNALED(status_of(pid)));
  EXPECT_THAT(group.processes(), testing::IsEmpty());
}

TEST_F(CgroupTest, limits_can_be_raised_and_lowered) {
  make({.cpus = 1, .memory_bytes = 64U << 20, .max_pids = 10});
  make({.cpus = 2, .memory_bytes = 256U << 20, .max_pids = 20});
  make({.cpus = 0.5, .memory_bytes = 32U << 20, .max_pids = 5});
}

TEST_F(CgroupTest, what_it_used_is_counted) {
  const Cgroup group = make({});
  status_of(child(group, [] {
    volatile std::uint64_t sum = 0;
    for (std::uint64_t i = 0; i < 20'000'000; ++i) sum = sum + i;
    return 0;
  }));
  EXPECT_GT(group.stats().cpu_ns, 1'000'000U);
}

TEST_F(CgroupTest, a_group_that_is_not_there_is_dead_and_gone) {
  const Cgroup none = Cgroup::open(container_cgroup_path("cgtest_none"));
  EXPECT_TRUE(none.kill());
  EXPECT_TRUE(none.destroy());
  EXPECT_EQ(none.stats().cpu_ns, 0U);
}

}  // namespace
}  // namespace sallyport::host
