// SPDX-License-Identifier: Apache-2.0
// Making, remaking and removing: nothing is left after any of it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <thread>

#include "host/fixture.h"
#include "host/links.h"

namespace sallyport::host {
namespace {

using testing::Contains;
using testing::Not;

class Lifecycle : public testing::Test {
 protected:
  [[nodiscard]] std::vector<std::string> links() {
    std::vector<std::string> names;
    const auto list =
        internet.as_daemon([]() -> Result<std::vector<LinkInfo>> { return Links::open()->list(); });
    for (const LinkInfo& link : *list) names.push_back(link.name);
    return names;
  }
  [[nodiscard]] std::vector<std::string> left() {
    return *internet.as_daemon([] { return leftovers(); });
  }
  Result<> create(const SandboxNetwork& what) {
    return internet.as_daemon([&] { return create_router(internet.node, what); });
  }
  Result<> remove(const SandboxNetwork& what) {
    return internet.as_daemon([&] { return destroy(internet.node, what); });
  }

  lab::Internet internet;
  SandboxNetwork network{"life_" + std::to_string(getpid()), 7};
};

TEST_F(Lifecycle, destroy_leaves_nothing_and_may_be_repeated) {
  ASSERT_TRUE(create(network));
  EXPECT_THAT(left(), Contains(network.id));
  EXPECT_THAT(links(), Contains("spu7"));
  EXPECT_TRUE(remove(network));
  EXPECT_THAT(left(), Not(Contains(network.id)));
  EXPECT_THAT(links(), Not(Contains("spu7")));
  EXPECT_TRUE(remove(network));
}

TEST_F(Lifecycle, creating_over_what_a_crash_left_works) {
  ASSERT_TRUE(create(network));
  EXPECT_TRUE(create(network));
  // A name without a namespace, and a link without an alias: two places where a kill -9 may have
  // struck.
  ASSERT_TRUE(remove(network));
  lab::run("touch -d '1 minute ago' /run/netns/sp-" + network.id);
  lab::run("ip -n " + internet.node_name() + " link add spu7 type veth peer name spx7");
  EXPECT_THAT(left(), Contains(network.id));
  EXPECT_TRUE(create(network));
  EXPECT_TRUE(remove(network));
  EXPECT_THAT(links(), Not(Contains("spx7")));
}

// A worker that still runs holds the namespace; its link must go all the same.
TEST_F(Lifecycle, a_namespace_that_is_still_held_loses_its_link_at_once) {
  ASSERT_TRUE(create(network));
  const auto held = internet.as_daemon([&] { return open_worker_sockets(internet.node, network); });
  ASSERT_TRUE(held);
  EXPECT_TRUE(remove(network));
  EXPECT_THAT(links(), Not(Contains("spu7")));
  EXPECT_TRUE(create(network));
  EXPECT_TRUE(remove(network));
}

// Two daemons of one machine, in two namespaces: neither sweeps the other's sandboxes away.
TEST_F(Lifecycle, the_sandboxes_of_another_node_are_not_ours) {
  lab::Internet elsewhere;
  ASSERT_TRUE(create(network));
  EXPECT_THAT(*elsewhere.as_daemon([] { return leftovers(); }), Not(Contains(network.id)));
  EXPECT_THAT(left(), Contains(network.id));
  EXPECT_TRUE(remove(network));
}

// The sweep at daemon start may not know the slot any more.
TEST_F(Lifecycle, a_leftover_is_removed_by_its_id_whatever_slot_is_given) {
  const SandboxNetwork other{"other_" + std::to_string(getpid()), 0};
  ASSERT_TRUE(create(network));
  ASSERT_TRUE(create(other));
  EXPECT_TRUE(remove({network.id, 0}));
  EXPECT_THAT(links(), Not(Contains("spu7")));
  EXPECT_THAT(links(), Contains("spu0"));
  EXPECT_TRUE(remove(other));
}

TEST_F(Lifecycle, a_guest_may_be_started_again_behind_the_same_router) {
  lab::Sandbox sandbox(internet, "again", 8);
  AddressPolicy policy;
  policy.forward_all = true;
  sandbox.apply(policy);
  const Fd server = lab::tcp_listener(internet.internet_ns, "198.19.1.1:80");
  EXPECT_EQ(lab::dial(sandbox.guest->ns, "198.19.1.1:80").error, 0);
  sandbox.renew_guest();
  EXPECT_EQ(lab::dial(sandbox.guest->ns, "198.19.1.1:80").error, 0);
}

TEST_F(Lifecycle, a_guest_that_is_gone_is_an_error_and_leaves_nothing) {
  ASSERT_TRUE(create(network));
  int pid = 0;
  {
    pid = lab::Guest().pid;
  }
  EXPECT_FALSE(internet.as_daemon([&] { return attach_guest(internet.node, network, pid); }));
  EXPECT_TRUE(remove(network));
}

TEST_F(Lifecycle, bad_ids_and_slots_are_refused) {
  for (const auto* id : {"", "../x", "UPPER", "a b", "a-b"}) EXPECT_FALSE(create({id, 1})) << id;
  EXPECT_FALSE(create({std::string(65, 'a'), 1}));
  EXPECT_FALSE(create({network.id, slot_count(internet.node)}));
}

// FW-008, R-096: between the making of the guest's link and the first policy nothing passes.
TEST_F(Lifecycle, before_the_first_policy_nothing_passes) {
  lab::Sandbox sandbox(internet, "first", 9);
  const Fd server = lab::tcp_listener(internet.internet_ns, "198.19.1.1:80");
  lab::send_udp(lab::udp_socket(sandbox.guest->ns), "198.19.1.1:443", "early");
  sandbox.worker.clear();
  EXPECT_EQ(lab::dial(sandbox.guest->ns, "198.19.1.1:80").error, ECONNREFUSED);
  EXPECT_THAT(internet.seen(), testing::IsEmpty());
}

TEST_F(Lifecycle, many_sandboxes_are_made_and_removed_at_once) {
  std::vector<std::thread> threads;
  std::vector<std::string> errors(8);
  for (unsigned i = 0; i < errors.size(); ++i) {
    threads.emplace_back([&, i] {
      (void)enter_namespace(internet.node_ns);
      const SandboxNetwork mine{network.id + "_" + std::to_string(i), 100 + i};
      AddressPolicy policy;
      policy.forward_all = true;
      for (int round = 0; round < 3 && errors[i].empty(); ++round) {
        const auto note = [&](const auto& result) {
          if (!result) errors[i] += result.error().message + "\n";
        };
        note(create_router(internet.node, mine));
        note(open_worker_sockets(internet.node, mine));
        note(host::apply(internet.node, mine, policy));
        note(host::apply(internet.node, mine, {}));
        note(destroy(internet.node, mine));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::string& error : errors) EXPECT_EQ(error, "");
  EXPECT_THAT(left(), testing::IsEmpty());
}

// kill -9 of the daemon at any moment: what is left is found and removed, and the next one can be
// made.
TEST_F(Lifecycle, a_daemon_killed_at_any_moment_leaves_what_can_be_removed) {
  for (unsigned i = 0; i < 25; ++i) {
    const pid_t daemon = fork();
    if (daemon == 0) {
      (void)enter_namespace(internet.node_ns);
      for (;;) {
        (void)create_router(internet.node, network);
        (void)destroy(internet.node, network);
      }
    }
    usleep(1000 * (i * 7 % 60));
    kill(daemon, SIGKILL);
    waitpid(daemon, nullptr, 0);
    const auto made = create(network);
    EXPECT_TRUE(made) << made.error().message;
    EXPECT_TRUE(remove(network));
    EXPECT_THAT(left(), testing::IsEmpty());
    EXPECT_THAT(links(), Not(Contains("spu7")));
  }
  lab::run("! test -e /run/netns/sp-" + network.id);
}

// Replaces the table of a former daemon in one step.
TEST_F(Lifecycle, setting_up_the_node_twice_is_fine) {
  EXPECT_TRUE(internet.as_daemon([&] { return setup_node(internet.node); }));
}

}  // namespace
}  // namespace sallyport::host
