// SPDX-License-Identifier: Apache-2.0
#include "firewall/gate.h"

#include <gtest/gtest.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <list>

#include "policy/policy_json.h"

namespace sallyport::firewall {
namespace {

using policy::Access;
using policy::Decision;
using policy::Reason;

policy::PolicyPtr parsed(std::string_view text) { return policy::parse_policy(text).value(); }

// A flow that is allowed as long as the policy is not deny-all.
class ToyFlow final : public Gate::Flow {
 public:
  explicit ToyFlow(Gate& gate, bool decided = true) : Flow(gate), decided_(decided) {}
  [[nodiscard]] std::optional<Decision> judge(const policy::Policy& policy,
                                              const policy::Boundary&) const override {
    if (!decided_) return std::nullopt;
    return Decision{.access = policy.denies_everything() ? Access::deny : Access::allow,
                    .reason = Reason::deny_all};
  }
  void cut(const Decision& why) override {
    ++cuts;
    reason = why.reason;
  }
  void end() override { ++ends; }
  int cuts = 0;
  int ends = 0;
  Reason reason{};

 private:
  bool decided_;
};

class AGate : public testing::Test {
 protected:
  // Starts somebody who waits for the gate; the answer comes when the loop has run.
  void wait_for_ready(std::optional<bool>& answer) {
    boost::asio::co_spawn(
        io,
        [](Gate& gate, std::optional<bool>& out) -> boost::asio::awaitable<void> {
          out = co_await gate.ready();
        }(gate, answer),
        boost::asio::detached);
  }
  void run() {
    io.restart();
    io.poll();
  }
  boost::asio::io_context io;
  Gate gate{io};
};

// I5
TEST_F(AGate, denies_everything_until_the_first_commit) {
  EXPECT_TRUE(gate.policy().denies_everything());
  EXPECT_EQ(gate.version(), 0U);
  gate.prepare(1, policy::allow_all());
  EXPECT_TRUE(gate.policy().denies_everything());
  ASSERT_TRUE(gate.commit(1));
  EXPECT_FALSE(gate.policy().denies_everything());
  EXPECT_EQ(gate.version(), 1U);
}

// I4, D-15, FW-013
TEST_F(AGate, a_commit_cuts_what_is_denied_and_counts_what_is_kept) {
  gate.prepare(1, policy::allow_all());
  ASSERT_TRUE(gate.commit(1));
  ToyFlow one(gate);
  ToyFlow two(gate);
  ToyFlow undecided(gate, false);
  gate.prepare(2, parsed(R"({"allow":["a.example"]})"));
  auto applied = gate.commit(2);
  EXPECT_EQ(applied->kept, 2U);
  EXPECT_EQ(applied->cut, 0U);
  gate.prepare(3, policy::deny_all());
  applied = gate.commit(3);
  EXPECT_EQ(applied->cut, 2U);
  EXPECT_EQ(one.cuts, 1);
  EXPECT_EQ(one.reason, Reason::deny_all);
  EXPECT_EQ(undecided.cuts, 0);
}

// R-095
TEST_F(AGate, a_version_that_is_not_prepared_is_neither_committed_nor_aborted) {
  EXPECT_EQ(gate.commit(1).error().code, Code::not_found);
  gate.prepare(1, policy::allow_all());
  EXPECT_EQ(gate.commit(2).error().code, Code::not_found);
  EXPECT_EQ(gate.abort(2).error().code, Code::not_found);
  EXPECT_TRUE(gate.held());
  ASSERT_TRUE(gate.abort(1));
  EXPECT_FALSE(gate.held());
  EXPECT_EQ(gate.version(), 0U);
  EXPECT_EQ(gate.commit(1).error().code, Code::not_found);
}

// R-095: the last writer wins.
TEST_F(AGate, a_second_prepare_replaces_the_first) {
  gate.prepare(1, policy::allow_all());
  gate.prepare(2, policy::deny_all());
  EXPECT_FALSE(gate.commit(1));
  ASSERT_TRUE(gate.commit(2));
  EXPECT_TRUE(gate.policy().denies_everything());
}

TEST_F(AGate, whoever_comes_during_an_update_waits_for_its_end) {
  std::optional<bool> before;
  wait_for_ready(before);
  run();
  EXPECT_EQ(before, true);

  gate.prepare(1, policy::allow_all());
  std::optional<bool> first;
  std::optional<bool> second;
  wait_for_ready(first);
  wait_for_ready(second);
  run();
  EXPECT_FALSE(first || second);
  ASSERT_TRUE(gate.commit(1));
  run();
  EXPECT_EQ(first, true);
  EXPECT_EQ(second, true);
}

TEST_F(AGate, an_update_after_an_update_holds_again_before_anybody_went_through) {
  gate.prepare(1, policy::allow_all());
  std::optional<bool> waiting;
  wait_for_ready(waiting);
  run();
  ASSERT_TRUE(gate.commit(1));
  gate.prepare(2, policy::deny_all());
  run();
  EXPECT_FALSE(waiting);
  ASSERT_TRUE(gate.commit(2));
  run();
  EXPECT_EQ(waiting, true);
}

// bench/policy promises a figure; here only that the answer is right with many flows and entries.
TEST_F(AGate, a_thousand_flows_are_judged_in_one_commit) {
  std::string policy = R"({"allow":[)";
  for (int i = 0; i < 10000; ++i)
    policy += (i ? ",\"" : "\"") + std::string("host") + std::to_string(i) + ".example\"";
  gate.prepare(1, parsed(policy + "]}"));
  ASSERT_TRUE(gate.commit(1));
  std::list<ToyFlow> flows;
  for (int i = 0; i < 1000; ++i) flows.emplace_back(gate);
  gate.prepare(2, policy::deny_all());
  EXPECT_EQ(gate.commit(2)->cut, 1000U);
}

TEST(Budget, gives_no_more_than_it_has) {
  net::Budget budget(10);
  EXPECT_TRUE(budget.take(6));
  EXPECT_FALSE(budget.take(5));
  EXPECT_TRUE(budget.take(4));
  EXPECT_FALSE(budget.take());
  budget.give(10);
  budget.set_limit(3);
  EXPECT_FALSE(budget.take(4));
  EXPECT_TRUE(budget.take(3));
  budget.set_limit(1);  // less than is out
  EXPECT_FALSE(budget.take());
  EXPECT_FALSE(budget.take(0));
}

TEST_F(AGate, a_closed_gate_has_ended_every_flow_and_allows_nothing) {
  gate.prepare(1, policy::allow_all());
  ASSERT_TRUE(gate.commit(1));
  ToyFlow decided(gate);
  ToyFlow undecided(gate, false);
  gate.prepare(2, policy::allow_all());
  gate.close();
  EXPECT_EQ(decided.ends + undecided.ends, 2);
  EXPECT_EQ(decided.cuts + undecided.cuts, 0);
  EXPECT_FALSE(gate.held());
  EXPECT_TRUE(gate.policy().denies_everything());
}

}  // namespace
}  // namespace sallyport::firewall
