// SPDX-License-Identifier: Apache-2.0
// The supervisor on a fake kernel: create, update, worker death, stop, delete, timeout.
#include "sandbox/supervisor.h"

#include <gtest/gtest.h>

#include <signal.h>

#include "support/test_node.h"

namespace sallyport::sandbox {
namespace {

using test::TempDirectory;
using test::TestNode;

constexpr const char* kAllowA = R"({"allow":["a.example.com"]})";
constexpr const char* kDenyAll = R"({"mode":"deny-all"})";

class SupervisorTest : public testing::Test {
 protected:
  SupervisorTest() : node(directory.path()) { CHECK(node.supervisor->recover().has_value()); }

  std::string worker_policy(const std::string& id) { return node.kernel.content("worker", id); }

  TempDirectory directory;
  TestNode node;
};

// FW-003: no policy given is allow-all.
TEST_F(SupervisorTest, a_sandbox_without_a_policy_allows_all) {
  CreateRequest request;
  request.key = {"team", "project", "web"};
  const auto view = node.create(std::move(request));
  ASSERT_TRUE(view) << view.error().message;
  EXPECT_EQ(view->session.status, "running");
  EXPECT_TRUE(view->session.started_at);
  EXPECT_EQ(view->policy.at("mode").as_string(), "allow-all");
  EXPECT_EQ(node.kernel.content("nft", view->session.id), "all");
}

// FW-008, R-096: FakeNetwork::attach_guest fails unless a committed policy is in force.
TEST_F(SupervisorTest, the_policy_is_in_force_before_the_guest_has_a_network) {
  const auto view = node.create("web", kAllowA);
  ASSERT_TRUE(view) << view.error().message;
  EXPECT_TRUE(worker_policy(view->session.id).starts_with("v1 "));
  EXPECT_EQ(node.kernel.content("link", view->session.id), "up");
}

TEST_F(SupervisorTest, a_taken_name_is_refused_and_leaves_the_first_alone) {
  ASSERT_TRUE(node.create("web"));
  const auto again = node.create("web");
  ASSERT_FALSE(again);
  EXPECT_EQ(again.error().code, Code::invalid);
  EXPECT_NE(again.error().message.find("already exists"), std::string::npos);
  EXPECT_EQ(node.view("web")->session.status, "running");
  EXPECT_EQ(node.supervisor->live_count(), 1U);
}

TEST_F(SupervisorTest, an_unknown_image_leaves_nothing_behind) {
  CreateRequest request;
  request.key = {"team", "project", "web"};
  request.image = "nonsense";
  EXPECT_EQ(node.create(std::move(request)).error().code, Code::not_found);
  EXPECT_TRUE(node.kernel.everything().empty());
  EXPECT_TRUE(node.create("web"));
}

// R-095: a create that fails at any step leaves nothing, and the name is free.
TEST_F(SupervisorTest, a_create_that_fails_at_any_step_leaves_nothing) {
  node.kernel.restart_count();
  ASSERT_TRUE(node.create("probe"));
  const int steps = node.kernel.steps();
  ASSERT_TRUE(node.remove("probe"));
  ASSERT_GT(steps, 8);
  for (int at = 1; at <= steps; ++at) {
    node.kernel.restart_count();
    node.kernel.fail_at = at;
    const auto view = node.create("web", kAllowA);
    node.kernel.fail_at = 0;
    ASSERT_FALSE(view) << "step " << at;
    EXPECT_TRUE(node.kernel.everything().empty())
        << "step " << at << ": " << node.kernel.everything().front();
    EXPECT_EQ(node.view("web").error().code, Code::not_found) << "step " << at;
    EXPECT_EQ(node.supervisor->live_count(), 0U);
  }
  EXPECT_TRUE(node.create("web"));
}

// FW-002, FW-013, I4: the new policy is in the kernel, the worker and the store when the call
// returns, with counts.
TEST_F(SupervisorTest, an_update_is_in_force_everywhere_when_it_returns) {
  const std::string id = node.create("web")->session.id;
  const auto update =
      node.set_policy(id, R"({"allow":["a.example.com"],"subnets":{"allow":["198.18.5.0/24"]}})");
  ASSERT_TRUE(update) << update.error().message;
  EXPECT_EQ(update->version, 2U);
  EXPECT_EQ(update->counts.kept, 13U);  // the worker's 12 and the kernel's 1
  EXPECT_EQ(update->counts.cut, 4U);
  EXPECT_EQ(node.kernel.content("nft", id), " +198.18.5.0/24");
  EXPECT_TRUE(worker_policy(id).starts_with("v2 "));
  EXPECT_EQ(node.store->policy({"team", "project", "web"})->version, 2U);
  EXPECT_EQ(update->view.policy.at("allowedDomains").as_array().size(), 1U);
}

// R-099: every mode after every other.
TEST_F(SupervisorTest, modes_follow_each_other_without_a_trace) {
  const std::string id = node.create("web")->session.id;
  const std::vector<std::pair<std::string, std::string>> modes = {
      {R"({"mode":"allow-all"})", "all"},
      {R"({"subnets":{"allow":["198.18.5.0/24"]}})", " +198.18.5.0/24"},
      {kDenyAll, "deny"}};
  std::uint64_t version = 1;
  for (int round = 0; round < 20; ++round) {
    const auto& [policy, kernel] =
        modes[static_cast<std::size_t>(round * 7 + round / 3) % modes.size()];
    ASSERT_TRUE(node.set_policy(id, policy));
    EXPECT_EQ(node.kernel.content("nft", id), kernel);
    EXPECT_TRUE(worker_policy(id).starts_with("v" + std::to_string(++version) + " "));
  }
}

// R-095: whichever step fails, kernel, worker and store agree on the old policy or on the new one.
TEST_F(SupervisorTest, an_update_that_fails_at_any_step_leaves_one_whole_policy) {
  const std::string id = node.create("web", kAllowA)->session.id;
  node.kernel.restart_count();
  ASSERT_TRUE(node.set_policy(id, kDenyAll));
  const int steps = node.kernel.steps();
  ASSERT_GE(steps, 4);
  for (int at = 1; at <= steps; ++at) {
    ASSERT_TRUE(node.set_policy(
        id, R"({"allow":["a.example.com"],"subnets":{"allow":["198.18.1.0/24"]}})"));
    const auto before = node.store->policy({"team", "project", "web"});
    node.kernel.restart_count();
    node.kernel.fail_at = at;
    const auto update = node.set_policy(id, R"({"subnets":{"allow":["198.18.2.0/24"]}})");
    node.kernel.fail_at = 0;
    // A lost worker comes back by itself; the next update would wait for it too.
    node.until([&] { return worker_policy(id).starts_with("v"); });
    const auto after = node.store->policy({"team", "project", "web"});
    const bool changed = after->version != before->version;
    EXPECT_EQ(changed, update.has_value()) << "step " << at;
    EXPECT_EQ(node.kernel.content("nft", id), changed ? " +198.18.2.0/24" : " +198.18.1.0/24")
        << "step " << at;
    EXPECT_TRUE(worker_policy(id).starts_with("v" + std::to_string(after->version) + " "))
        << "step " << at << " " << worker_policy(id);
  }
}

// R-095: two at once are one after the other.
TEST_F(SupervisorTest, concurrent_updates_end_with_the_last_version) {
  const std::string id = node.create("web")->session.id;
  std::vector<std::future<Result<PolicyUpdate>>> updates;
  for (int i = 0; i < 32; ++i) {
    auto promise = std::make_shared<std::promise<Result<PolicyUpdate>>>();
    updates.push_back(promise->get_future());
    auto policy = policy::parse_policy(i % 2 == 0 ? kAllowA : kDenyAll);
    node.supervisor->set_policy(id, *policy, [promise](Result<PolicyUpdate> update) {
      promise->set_value(std::move(update));
    });
  }
  std::set<std::uint64_t> versions;
  for (auto& each : updates) {
    auto update = each.get();
    ASSERT_TRUE(update) << update.error().message;
    versions.insert(update->version);
  }
  EXPECT_EQ(versions.size(), 32U);
  EXPECT_EQ(*versions.rbegin(), 33U);
  EXPECT_TRUE(worker_policy(id).starts_with("v33 "));
}

// R-097: a dead worker is replaced by one with the same policy and version.
TEST_F(SupervisorTest, a_dead_worker_comes_back_with_the_same_policy) {
  const std::string id = node.create("web", kAllowA)->session.id;
  ASSERT_TRUE(node.set_policy(id, kDenyAll));
  const std::string before = worker_policy(id);
  const int launched = node.workers.launched();
  node.workers.kill(id);
  node.until([&] { return node.workers.launched() > launched && worker_policy(id) == before; });
  EXPECT_EQ(node.kernel.content("nft", id), "deny");
  EXPECT_TRUE(node.set_policy(id, kAllowA));
}

// I6: a worker that was taken over could else rotate away what it did before.
TEST_F(SupervisorTest, a_log_is_rotated_when_it_is_full_and_not_when_the_worker_says_so) {
  const std::string id = node.create("web", kAllowA)->session.id;
  const std::filesystem::path log = directory.path() + "/state/sandboxes/" + id + "/egress.jsonl";
  const std::filesystem::path older = log.string() + ".1";
  node.workers.say_log_full(id);
  ASSERT_TRUE(node.set_policy(id, kDenyAll));  // comes after it on the sandbox's Serial
  EXPECT_FALSE(std::filesystem::exists(older));
  std::filesystem::resize_file(log, 64U << 20);
  node.workers.say_log_full(id);
  ASSERT_TRUE(node.set_policy(id, kAllowA));
  EXPECT_TRUE(std::filesystem::exists(older));
  EXPECT_EQ(std::filesystem::file_size(log), 0U);
}

// R-097: while no worker can be started nothing opens; once one can, it comes without anybody
// asking.
TEST_F(SupervisorTest, a_worker_that_cannot_start_is_tried_again) {
  const std::string id = node.create("web", kAllowA)->session.id;
  const std::string before = worker_policy(id);
  node.workers.refuse_launch = true;
  node.workers.kill(id);
  node.until([&] { return worker_policy(id).empty(); });
  EXPECT_EQ(node.set_policy(id, R"({"mode":"allow-all"})").has_value(), false);
  EXPECT_EQ(node.kernel.content("nft", id),
            "deny");  // a policy by names opens nothing in the kernel
  node.workers.refuse_launch = false;
  node.until([&] { return worker_policy(id) == before; });
}

TEST_F(SupervisorTest, a_stopped_sandbox_leaves_its_record_and_nothing_else) {
  const auto created = node.create("web");
  const auto stopped = node.stop(created->session.id);
  ASSERT_TRUE(stopped) << stopped.error().message;
  EXPECT_EQ(stopped->session.status, "stopped");
  EXPECT_EQ(stopped->sandbox.status, "stopped");
  EXPECT_TRUE(stopped->session.stopped_at);
  EXPECT_TRUE(node.kernel.everything().empty());
  EXPECT_EQ(node.stop(created->session.id)->session.status, "stopped");  // again is fine
  EXPECT_EQ(node.set_policy(created->session.id, kDenyAll).error().code, Code::conflict);
}

TEST_F(SupervisorTest, a_deleted_sandbox_frees_its_name) {
  ASSERT_TRUE(node.create("web"));
  const auto last = node.remove("web");
  ASSERT_TRUE(last);
  EXPECT_EQ(last->session.status, "stopped");
  EXPECT_EQ(node.view("web").error().code, Code::not_found);
  EXPECT_TRUE(node.create("web"));
}

// SB-026: the timeout stops it.
TEST_F(SupervisorTest, a_sandbox_stops_at_its_timeout) {
  CreateRequest request;
  request.key = {"team", "project", "web"};
  request.timeout = 20;
  const auto view = node.create(std::move(request));
  ASSERT_TRUE(view) << view.error().message;
  node.until([&] { return node.view("web")->session.status == "stopped"; });
  EXPECT_TRUE(node.kernel.everything().empty());
}

TEST_F(SupervisorTest, extending_adds_exactly_and_has_a_limit) {
  const auto view = node.create("web");
  const auto extended = TestNode::wait<View>(
      [&](auto done) { node.supervisor->extend(view->session.id, 60'000, done); });
  ASSERT_TRUE(extended);
  EXPECT_EQ(extended->session.timeout, view->session.timeout + 60'000);
  const auto beyond = TestNode::wait<View>(
      [&](auto done) { node.supervisor->extend(view->session.id, 3'600'000, done); });
  EXPECT_EQ(beyond.error().code, Code::invalid);
}

TEST_F(SupervisorTest, a_guest_that_ends_by_itself_is_a_failed_session) {
  const auto view = node.create("web");
  ::kill(std::atoi(node.kernel.content("guest", view->session.id).c_str()), SIGKILL);
  node.until([&] { return node.view("web")->session.status == "failed"; });
  EXPECT_TRUE(node.kernel.everything().empty());
}

TEST_F(SupervisorTest, an_attached_network_must_be_configured) {
  CreateRequest request;
  request.key = {"team", "project", "web"};
  request.network_id = "nowhere";
  const auto refused = node.create(request);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("corp"), std::string::npos) << "names what there is";
  request.network_id = "corp";
  EXPECT_TRUE(node.create(request));
}

TEST_F(SupervisorTest, sandboxes_that_stopped_long_ago_are_forgotten_and_no_others) {
  const std::string id = node.create("old")->session.id;
  ASSERT_TRUE(node.create("running"));
  ASSERT_TRUE(node.stop(id));
  auto session = *node.store->session(id);
  session.status = "aborted";  // a change of status is what the age counts from
  session.updated_at = 1000;
  ASSERT_TRUE(node.store->update_session(session));
  const std::string fresh = node.create("fresh")->session.id;
  ASSERT_TRUE(node.stop(fresh));
  node.supervisor->forget_old();
  node.until([&] { return !node.view("old"); });
  EXPECT_TRUE(node.view("running"));
  EXPECT_TRUE(node.view("fresh"));
}

TEST_F(SupervisorTest, many_are_created_at_once) {
  std::vector<std::future<Result<View>>> creates;
  for (int i = 0; i < 20; ++i) {
    auto promise = std::make_shared<std::promise<Result<View>>>();
    creates.push_back(promise->get_future());
    CreateRequest request;
    request.key = {"team", "project", "box" + std::to_string(i)};
    node.supervisor->create(std::move(request),
                            [promise](Result<View> view) { promise->set_value(std::move(view)); });
  }
  std::set<unsigned> slots;
  for (auto& each : creates) {
    auto view = each.get();
    ASSERT_TRUE(view) << view.error().message;
    slots.insert(view->session.slot);
  }
  EXPECT_EQ(slots.size(), 20U);
  std::promise<void> stopped;
  node.supervisor->stop_all([&] { stopped.set_value(); });
  stopped.get_future().wait();
  EXPECT_TRUE(node.kernel.everything().empty());
}

}  // namespace
}  // namespace sallyport::sandbox
