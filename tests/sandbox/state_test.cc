// SPDX-License-Identifier: Apache-2.0
#include "sandbox/state.h"

#include <gtest/gtest.h>

#include <array>

namespace sallyport::sandbox {
namespace {

constexpr std::array kStates = {State::pending,      State::running, State::stopping,
                                State::snapshotting, State::stopped, State::failed,
                                State::aborted};
constexpr std::array kEvents = {
    Event::started, Event::start_failed, Event::stop_requested, Event::snapshot_requested,
    Event::halted,  Event::died,         Event::abandoned};

TEST(State, a_session_that_ended_stays_ended) {
  for (const State state : kStates) {
    for (const Event event : kEvents) {
      if (is_final(state)) EXPECT_FALSE(next(state, event)) << to_string(state);
    }
  }
}

TEST(State, only_a_pending_session_becomes_running) {
  for (const State state : kStates)
    EXPECT_EQ(next(state, Event::started).has_value(), state == State::pending);
}

TEST(State, every_state_that_is_not_final_has_a_way_out_when_the_daemon_comes_back) {
  for (const State state : kStates) {
    if (is_final(state)) continue;
    const auto to = next(state, Event::abandoned);
    ASSERT_TRUE(to) << to_string(state);
    EXPECT_TRUE(is_final(*to));
  }
}

TEST(State, stopping_ends_as_stopped_however_it_ends) {
  for (const Event event : {Event::halted, Event::died, Event::abandoned})
    EXPECT_EQ(next(State::stopping, event), State::stopped);
}

TEST(State, names_are_those_of_the_api_and_come_back) {
  for (const State state : kStates) EXPECT_EQ(state_from(to_string(state)), state);
  EXPECT_EQ(to_string(State::snapshotting), "snapshotting");
  EXPECT_FALSE(state_from("Running"));
}

}  // namespace
}  // namespace sallyport::sandbox
