// SPDX-License-Identifier: Apache-2.0
// R-095, R-097: the daemon is killed at every step of every operation; the next one finds whole
// sandboxes with a whole policy, or nothing.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/test_node.h"

namespace sallyport::sandbox {
namespace {

using test::TempDirectory;
using test::TestNode;

constexpr const char* kOld = R"({"allow":["a.example.com"],"subnets":{"allow":["198.18.1.0/24"]}})";
constexpr const char* kNew = R"({"subnets":{"allow":["198.18.2.0/24"]}})";

// Runs `story` as a daemon of its own in a child process that is gone, as if by kill -9, when it
// reaches step `kill_at` after `armed` was set. True: it was killed; false: the story was over
// before.
bool daemon_dies(const std::string& directory,
                 const std::function<void(TestNode&, const std::function<void()>& arm)>& story,
                 int kill_at) {
  const pid_t child = ::fork();
  if (child == 0) {
    auto node = new TestNode(directory);  // never destroyed: a killed daemon destroys nothing
    if (!node->supervisor->recover()) test::FakeKernel::die(1);
    story(*node, [&] {
      node->kernel.restart_count();
      node->kernel.kill_at = kill_at;
    });
    test::FakeKernel::die(0);
  }
  int status = 0;
  CHECK(::waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status) && (WEXITSTATUS(status) == 77 || WEXITSTATUS(status) == 0));
  return WEXITSTATUS(status) == 77;
}

TEST(Recovery, a_daemon_killed_during_create_leaves_nothing_and_the_name_free) {
  int at = 1;
  for (bool killed = true; killed; ++at) {
    const TempDirectory directory;
    killed = daemon_dies(
        directory.path(),
        [](TestNode& node, const auto& arm) {
          arm();
          CHECK(node.create("web", kOld).has_value());
        },
        at);
    TestNode node(directory.path());
    const auto recovered = node.supervisor->recover();
    ASSERT_TRUE(recovered) << "step " << at << ": " << recovered.error().message;
    if (!killed) {
      EXPECT_EQ(node.view("web")->session.status, "running");  // it was created, and is taken over
      continue;
    }
    EXPECT_TRUE(node.kernel.everything().empty())
        << "step " << at << ": " << node.kernel.everything().front();
    EXPECT_TRUE(node.create("web", kOld)) << "step " << at;
  }
  EXPECT_GT(at, 10);
}

TEST(Recovery, a_daemon_killed_during_an_update_comes_back_with_one_whole_policy) {
  int at = 1;
  for (bool killed = true; killed; ++at) {
    const TempDirectory directory;
    killed = daemon_dies(
        directory.path(),
        [](TestNode& node, const auto& arm) {
          const auto view = node.create("web", kOld);
          CHECK(view.has_value());
          arm();
          CHECK(node.set_policy(view->session.id, kNew).has_value());
        },
        at);
    TestNode node(directory.path());
    ASSERT_TRUE(node.supervisor->recover()) << "step " << at;
    const auto view = node.view("web");
    ASSERT_TRUE(view);
    EXPECT_EQ(view->session.status, "running") << "step " << at;
    const auto stored = node.store->policy({"team", "project", "web"});
    EXPECT_EQ(node.kernel.content("nft", view->session.id),
              stored->version == 2 ? " +198.18.2.0/24" : " +198.18.1.0/24")
        << "step " << at;
    EXPECT_TRUE(node.kernel.content("worker", view->session.id)
                    .starts_with("v" + std::to_string(stored->version) + " "))
        << "step " << at;
    if (!killed) EXPECT_EQ(stored->version, 2U);  // acknowledged
  }
  EXPECT_GT(at, 4);
}

TEST(Recovery, a_daemon_killed_during_stop_finishes_stopping) {
  int at = 1;
  for (bool killed = true; killed; ++at) {
    const TempDirectory directory;
    killed = daemon_dies(
        directory.path(),
        [](TestNode& node, const auto& arm) {
          const auto view = node.create("web", kOld);
          CHECK(view.has_value());
          arm();
          CHECK(node.stop(view->session.id).has_value());
        },
        at);
    TestNode node(directory.path());
    ASSERT_TRUE(node.supervisor->recover()) << "step " << at;
    EXPECT_EQ(node.view("web")->session.status, "stopped") << "step " << at;
    EXPECT_TRUE(node.kernel.everything().empty()) << "step " << at;
  }
  EXPECT_GT(at, 3);
}

// Running sandboxes live on: same guest, same worker, same policy, and they obey the new daemon.
TEST(Recovery, a_running_sandbox_is_taken_over) {
  const TempDirectory directory;
  daemon_dies(
      directory.path(),
      [](TestNode& node, const auto&) { CHECK(node.create("web", kOld).has_value()); }, 0);
  TestNode node(directory.path());
  const std::string id = node.view("web")->session.id;
  const std::string guest = node.kernel.content("guest", id);
  ASSERT_TRUE(node.supervisor->recover());
  EXPECT_EQ(node.kernel.content("guest", id), guest);
  EXPECT_EQ(node.workers.launched(), 0) << "the worker was kept";
  EXPECT_TRUE(node.set_policy(id, kNew));
  EXPECT_TRUE(node.kernel.content("worker", id).starts_with("v2 "));
}

TEST(Recovery, a_worker_that_died_meanwhile_is_replaced) {
  const TempDirectory directory;
  daemon_dies(
      directory.path(),
      [](TestNode& node, const auto&) { CHECK(node.create("web", kOld).has_value()); }, 0);
  TestNode node(directory.path());
  const std::string id = node.view("web")->session.id;
  node.kernel.remove("worker", id);
  ASSERT_TRUE(node.supervisor->recover());
  EXPECT_EQ(node.view("web")->session.status, "running");
  EXPECT_EQ(node.workers.launched(), 1);
  EXPECT_TRUE(node.kernel.content("worker", id).starts_with("v1 "));
}

TEST(Recovery, a_guest_that_died_meanwhile_is_cleaned_away) {
  const TempDirectory directory;
  daemon_dies(
      directory.path(),
      [](TestNode& node, const auto&) { CHECK(node.create("web", kOld).has_value()); }, 0);
  TestNode node(directory.path());
  const std::string id = node.view("web")->session.id;
  ::kill(std::atoi(node.kernel.content("guest", id).c_str()), SIGKILL);
  node.until([&] { return !process_id_of(std::atoi(node.kernel.content("guest", id).c_str())); });
  ASSERT_TRUE(node.supervisor->recover());
  EXPECT_EQ(node.view("web")->session.status, "aborted");
  EXPECT_TRUE(node.kernel.everything().empty());
}

// The store was lost or replaced: nobody owns what the kernel still shows.
TEST(Recovery, what_nobody_knows_is_swept_away) {
  const TempDirectory directory;
  TestNode node(directory.path());
  for (const char* kind : {"router", "nft", "link"}) node.kernel.put(kind, "sbx_orphan", "1");
  node.kernel.put("guest", "sbx_other", "0");
  std::filesystem::create_directories(directory.path() + "/run/sandboxes/sbx_third");
  std::filesystem::create_directories(directory.path() + "/state/sandboxes/sbx_fourth");
  ASSERT_TRUE(node.supervisor->recover());
  EXPECT_TRUE(node.kernel.everything().empty());
  EXPECT_FALSE(std::filesystem::exists(directory.path() + "/run/sandboxes/sbx_third"));
  EXPECT_FALSE(std::filesystem::exists(directory.path() + "/state/sandboxes/sbx_fourth"));
}

// R-098: what is read back after a restart is what was set.
TEST(Recovery, the_policy_outlives_stop_and_restart) {
  const TempDirectory directory;
  daemon_dies(
      directory.path(),
      [](TestNode& node, const auto&) {
        const auto view = node.create("web", kOld);
        CHECK(node.set_policy(view->session.id, kNew).has_value());
        CHECK(node.stop(view->session.id).has_value());
      },
      0);
  TestNode node(directory.path());
  ASSERT_TRUE(node.supervisor->recover());
  EXPECT_EQ(node.view("web")->policy.at("allowedCIDRs").as_array().at(0).as_string(),
            "198.18.2.0/24");
}

}  // namespace
}  // namespace sallyport::sandbox
