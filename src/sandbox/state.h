// SPDX-License-Identifier: Apache-2.0
// The life of a session as one table: which event leads from which state to which. Everything that
// changes a status asks here; what the table does not name is refused. The names are those of the
// API.
#pragma once

#include <optional>
#include <string_view>

namespace sallyport::sandbox {

enum class State { pending, running, stopping, snapshotting, stopped, failed, aborted };

enum class Event {
  started,         // the agent answered
  start_failed,    // any step of create failed
  stop_requested,  // by the API, the timeout or the daemon
  snapshot_requested,
  halted,     // everything of the session is gone, as asked
  died,       // PID 1 or something it cannot live without ended by itself
  abandoned,  // the daemon came back and found it half-made
};

[[nodiscard]] std::optional<State> next(State state, Event event);
[[nodiscard]] bool is_final(State state);  // nothing of the session is left in the kernel
[[nodiscard]] std::string_view to_string(State state);
[[nodiscard]] std::optional<State> state_from(std::string_view text);

}  // namespace sallyport::sandbox
