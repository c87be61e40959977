// SPDX-License-Identifier: Apache-2.0
// The sandbox's root file system, with real loop devices and mounts.
#include "host/disk.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <ctime>
#include <fstream>

#include "host/mounts.h"

namespace sallyport::host {
namespace {

constexpr std::uint64_t kDisk = 64ULL << 20;

class Disk : public testing::Test {
 protected:
  Disk() {
    char name[] = "/tmp/sallyport-disk-XXXXXX";
    top_ = mkdtemp(name);
    shell("chmod 0755 " + top_);  // other ids than ours work below it
    shell("mkdir -p " + top_ + "/tree/etc " + top_ + "/run " + top_ + "/images && echo base > " +
          top_ + "/tree/etc/release && " + "chown 1000:1000 " + top_ +
          "/tree/etc/release && mksquashfs " + top_ + "/tree " + top_ +
          "/base.sqsh -quiet -no-progress > /dev/null");
    spec_.base_image = top_ + "/base.sqsh";
    spec_.base_mount = top_ + "/images/base";
    spec_.disk_image = top_ + "/disk.ext4";
    spec_.disk_bytes = kDisk;
    spec_.dir = top_ + "/run";
    spec_.id_range = IdRange{0x10000000, 65536};
  }
  ~Disk() override {
    EXPECT_TRUE(unmount_root(spec_.dir));
    EXPECT_TRUE(unmount_base(spec_.base_mount));
    EXPECT_THAT(*mounts_below(top_), testing::IsEmpty());
    shell("rm -rf " + top_);
  }
  static void shell(const std::string& command) {
    ASSERT_EQ(std::system(command.c_str()), 0) << command;
  }
  static std::pair<unsigned, unsigned> owner(const std::string& path) {
    struct stat about{};
    EXPECT_EQ(stat(path.c_str(), &about), 0) << path;
    return {about.st_uid, about.st_gid};
  }
  std::string root() {
    auto mounted = mount_root(spec_);
    EXPECT_TRUE(mounted) << mounted.error().message;
    return mounted ? mounted->root : "/nowhere";
  }

  std::string top_;
  RootSpec spec_;
};

TEST_F(Disk, the_base_is_seen_through_the_root_with_the_ids_of_the_sandbox) {
  const std::string at = root();
  std::ifstream file(at + "/etc/release");
  std::string word;
  file >> word;
  EXPECT_EQ(word, "base");
  EXPECT_EQ(owner(at + "/etc/release"), std::pair(0x10000000U + 1000, 0x10000000U + 1000));
  EXPECT_EQ(owner(at), std::pair(0x10000000U, 0x10000000U));
}

TEST_F(Disk, what_is_written_survives_and_follows_the_sandbox_to_another_slot) {
  const std::string at = root();
  shell("setpriv --reuid 268436456 --regid 268436456 --clear-groups sh -c 'echo changed > " + at +
        "/etc/release'");
  ASSERT_TRUE(unmount_root(spec_.dir));
  spec_.id_range = IdRange{0x20000000, 65536};
  const std::string again = root();
  std::ifstream file(again + "/etc/release");
  std::string word;
  file >> word;
  EXPECT_EQ(word, "changed");
  EXPECT_EQ(owner(again + "/etc/release"), std::pair(0x20000000U + 1000, 0x20000000U + 1000));
}

TEST_F(Disk, the_disk_is_of_fixed_size_inside_and_small_outside) {
  const std::string at = root();
  struct statvfs size{};
  ASSERT_EQ(statvfs(at.c_str(), &size), 0);
  EXPECT_LE(size.f_blocks * size.f_frsize, kDisk);
  struct stat image{};
  ASSERT_EQ(stat(spec_.disk_image.c_str(), &image), 0);
  EXPECT_EQ(static_cast<std::uint64_t>(image.st_size), kDisk);
  EXPECT_LT(static_cast<std::uint64_t>(image.st_blocks) * 512, kDisk / 8);

  shell("setpriv --reuid 268435456 --regid 268435456 --clear-groups sh -c 'dd if=/dev/zero of=" +
        at + "/full bs=1M count=80 2>&1 | grep -q \"No space left\"'");
}

TEST_F(Disk, mounting_twice_and_unmounting_half_made_states_is_fine) {
  const std::string at = root();
  EXPECT_EQ(root(), at);
  shell("umount " + at);
  EXPECT_EQ(root(), at);
  EXPECT_TRUE(unmount_root(spec_.dir));
  EXPECT_TRUE(unmount_root(spec_.dir));
}

TEST_F(Disk, a_failure_leaves_nothing_mounted) {
  shell("head -c 1048576 /dev/urandom > " + spec_.disk_image);
  const auto mounted = mount_root(spec_);
  ASSERT_FALSE(mounted);
  EXPECT_THAT(mounted.error().message, testing::HasSubstr("ext4"));
  EXPECT_THAT(*mounts_below(spec_.dir), testing::IsEmpty());
}

TEST_F(Disk, an_image_of_another_kind_is_refused) {
  shell("cp " + spec_.base_image + " " + top_ + "/good && head -c 8192 /dev/zero > " +
        spec_.base_image);
  EXPECT_FALSE(mount_root(spec_));
}

// A daemon killed at any moment leaves no process: the one that lends a user namespace for the
// mapping would keep the daemon's lock and sockets open, and no other daemon could start.
TEST(MapIds, leaves_no_process_behind_a_killed_caller) {
  ASSERT_EQ(::prctl(PR_SET_CHILD_SUBREAPER, 1), 0);  // orphans come to us
  char name[] = "/tmp/sallyport-ids-XXXXXX";
  const std::string top = mkdtemp(name);
  for (int round = 0; round < 300; ++round) {
    int pipe_ends[2];
    ASSERT_EQ(::pipe(pipe_ends), 0);
    const pid_t caller = ::fork();
    if (caller == 0) {
      // On one processor the helper runs late, which is when the caller may die before it.
      cpu_set_t one;
      CPU_ZERO(&one);
      CPU_SET(0, &one);
      (void)::sched_setaffinity(0, sizeof one, &one);
      (void)!::write(pipe_ends[1], "x", 1);
      for (;;) {
        const auto mount = clone_mount(top);
        if (!mount || !map_ids(*mount, IdRange{0x10000000, 65536})) ::_exit(1);
      }
    }
    char byte = 0;
    ASSERT_EQ(::read(pipe_ends[0], &byte, 1), 1);
    const timespec moment{0, 20'000 * (round % 100)};  // somewhere in one of its calls
    ::nanosleep(&moment, nullptr);
    ASSERT_EQ(::kill(caller, SIGKILL), 0);
    ::close(pipe_ends[0]);
    ::close(pipe_ends[1]);
    while (::waitpid(-1, nullptr, 0) > 0) {  // for ever, if one is left that does not end
    }
    ASSERT_EQ(errno, ECHILD);
  }
  ::rmdir(top.c_str());
}

}  // namespace
}  // namespace sallyport::host
