// SPDX-License-Identifier: Apache-2.0
#include "sandbox/state.h"

#include <array>
#include <utility>

namespace sallyport::sandbox {
namespace {

struct Transition {
  State from;
  Event event;
  State to;
};

constexpr std::array kTransitions = {
    Transition{State::pending, Event::started, State::running},
    Transition{State::pending, Event::start_failed, State::failed},
    Transition{State::pending, Event::stop_requested, State::stopping},
    Transition{State::pending, Event::abandoned, State::aborted},
    Transition{State::running, Event::stop_requested, State::stopping},
    Transition{State::running, Event::snapshot_requested, State::snapshotting},
    Transition{State::running, Event::died, State::failed},
    Transition{State::running, Event::abandoned, State::aborted},
    Transition{State::stopping, Event::halted, State::stopped},
    Transition{State::stopping, Event::died, State::stopped},  // it was to end anyway
    Transition{State::stopping, Event::abandoned, State::stopped},
    Transition{State::snapshotting, Event::halted, State::stopped},
    Transition{State::snapshotting, Event::died, State::failed},
    Transition{State::snapshotting, Event::abandoned, State::aborted},
};

constexpr std::array<std::pair<State, std::string_view>, 7> kNames = {{
    {State::pending, "pending"},
    {State::running, "running"},
    {State::stopping, "stopping"},
    {State::snapshotting, "snapshotting"},
    {State::stopped, "stopped"},
    {State::failed, "failed"},
    {State::aborted, "aborted"},
}};

}  // namespace

std::optional<State> next(State state, Event event) {
  for (const Transition& row : kTransitions) {
    if (row.from == state && row.event == event) return row.to;
  }
  return std::nullopt;
}

bool is_final(State state) {
  return state == State::stopped || state == State::failed || state == State::aborted;
}

std::string_view to_string(State state) {
  for (const auto& [value, name] : kNames) {
    if (value == state) return name;
  }
  return "failed";
}

std::optional<State> state_from(std::string_view text) {
  for (const auto& [value, name] : kNames) {
    if (name == text) return value;
  }
  return std::nullopt;
}

}  // namespace sallyport::sandbox
