// SPDX-License-Identifier: Apache-2.0
// How records lie in rows: the column lists, and reading and binding in exactly their order.
// Nothing else of the store knows a column's position.
#pragma once

#include "store/sqlite.h"
#include "store/store.h"

namespace sallyport::store {

// "s" is sandboxes, "t" is sessions.
inline constexpr const char* kSandboxColumns =
    "s.id, s.team, s.project, s.name, s.current_session, s.status, s.persistent, s.vcpus, "
    "s.memory_mb, s.timeout, s.image, "
    "s.region, s.network_id, s.extra, s.created_at, s.updated_at, s.status_updated_at, "
    "s.total_egress, s.total_ingress, "
    "s.total_duration, (SELECT json_group_object(key, value) FROM tags WHERE sandbox = s.id)";
inline constexpr const char* kSessionColumns =
    "t.seq, t.id, s.team, s.project, s.name, t.status, t.vcpus, t.memory_mb, t.region, t.cwd, "
    "t.timeout, t.requested_at, "
    "t.created_at, t.updated_at, t.started_at, t.requested_stop_at, t.stopped_at, t.aborted_at, "
    "t.egress, t.ingress, "
    "t.failure, t.slot, t.image_dir, t.worker_pid, t.worker_start, t.init_pid, t.init_start, "
    "t.agent_socket";

struct SandboxRow {
  std::int64_t id = 0;
  SandboxRecord record;
};
struct SessionRow {
  std::int64_t seq = 0;
  SessionRecord record;
};
[[nodiscard]] SandboxRow read_sandbox(Statement& row);
[[nodiscard]] SessionRow read_session(Statement& row);
[[nodiscard]] CommandRecord read_command(
    Statement& row);  // id, session, name, args, cwd, started_at, exit_code, duration

[[nodiscard]] Result<std::int64_t> insert_sandbox(Database& database, const SandboxRecord& record,
                                                  const PolicyRecord& policy,
                                                  const std::string& sealed_policy,
                                                  const std::string& sealed_environment);
[[nodiscard]] Result<> insert_session(Database& database, std::int64_t sandbox,
                                      const SessionRecord& record);

}  // namespace sallyport::store
