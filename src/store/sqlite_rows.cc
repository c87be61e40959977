// SPDX-License-Identifier: Apache-2.0
#include "store/sqlite_rows.h"

#include <boost/json/serialize.hpp>

namespace sallyport::store {
namespace {

// What we wrote ourselves; a value that does not parse reads as empty rather than taking the record
// with it.
json::value stored_json(const std::string& text) {
  auto value = parse_json(text, {.max_bytes = 64U << 20, .max_depth = 64});
  return value ? *std::move(value) : json::value(json::object());
}

std::map<std::string, std::string> stored_tags(const std::string& text) {
  std::map<std::string, std::string> tags;
  const json::value value = stored_json(text);
  if (!value.is_object()) return tags;
  for (const auto& [key, tag] : value.get_object()) {
    if (tag.is_string()) tags.emplace(key, tag.get_string());
  }
  return tags;
}

}  // namespace

SandboxRow read_sandbox(Statement& row) {
  SandboxRow out;
  out.id = row.number();
  SandboxRecord& record = out.record;
  record.key.team = row.text();
  record.key.project = row.text();
  record.key.name = row.text();
  record.current_session = row.text();
  record.status = row.text();
  record.persistent = row.number() != 0;
  record.vcpus = static_cast<unsigned>(row.number());
  record.memory_mb = row.number();
  record.timeout = row.number();
  record.image = row.text();
  record.region = row.text();
  record.network_id = row.maybe_text();
  if (json::value extra = stored_json(row.text()); extra.is_object())
    record.extra = std::move(extra.get_object());
  record.created_at = row.number();
  record.updated_at = row.number();
  record.status_updated_at = row.number();
  record.total_egress = row.number();
  record.total_ingress = row.number();
  record.total_duration = row.number();
  record.tags = stored_tags(row.text());
  return out;
}

SessionRow read_session(Statement& row) {
  SessionRow out;
  out.seq = row.number();
  SessionRecord& record = out.record;
  record.id = row.text();
  record.sandbox.team = row.text();
  record.sandbox.project = row.text();
  record.sandbox.name = row.text();
  record.status = row.text();
  record.vcpus = static_cast<unsigned>(row.number());
  record.memory_mb = row.number();
  record.region = row.text();
  record.cwd = row.text();
  record.timeout = row.number();
  record.requested_at = row.number();
  record.created_at = row.number();
  record.updated_at = row.number();
  record.started_at = row.maybe_number();
  record.requested_stop_at = row.maybe_number();
  record.stopped_at = row.maybe_number();
  record.aborted_at = row.maybe_number();
  record.egress = row.number();
  record.ingress = row.number();
  record.failure = row.text();
  record.slot = static_cast<unsigned>(row.number());
  record.image_dir = row.text();
  record.worker_pid = static_cast<int>(row.number());
  record.worker_start = static_cast<std::uint64_t>(row.number());
  record.init_pid = static_cast<int>(row.number());
  record.init_start = static_cast<std::uint64_t>(row.number());
  record.agent_socket = row.text();
  return out;
}

CommandRecord read_command(Statement& row) {
  CommandRecord record;
  record.id = row.text();
  record.session = row.text();
  record.name = row.text();
  if (const json::value args = stored_json(row.text()); args.is_array()) {
    for (const json::value& arg : args.get_array()) {
      if (arg.is_string()) record.args.emplace_back(arg.get_string());
    }
  }
  record.cwd = row.text();
  record.started_at = row.number();
  if (const auto code = row.maybe_number()) record.exit_code = static_cast<int>(*code);
  record.duration = row.maybe_number();
  return record;
}

Result<std::int64_t> insert_sandbox(Database& database, const SandboxRecord& record,
                                    const PolicyRecord& policy, const std::string& sealed_policy,
                                    const std::string& sealed_environment) {
  Statement insert(database,
                   "INSERT INTO sandboxes (team, project, name, current_session, status, "
                   "persistent, vcpus, memory_mb, "
                   "timeout, image, region, network_id, extra, created_at, updated_at, "
                   "status_updated_at, total_egress, "
                   "total_ingress, total_duration, policy_version, policy_sealed, policy_response, "
                   "environment_sealed) "
                   "VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)");
  insert.bind(record.key.team)
      .bind(record.key.project)
      .bind(record.key.name)
      .bind(record.current_session);
  insert.bind(record.status).bind(std::int64_t{record.persistent}).bind(std::int64_t{record.vcpus});
  insert.bind(record.memory_mb)
      .bind(record.timeout)
      .bind(record.image)
      .bind(record.region)
      .bind(record.network_id);
  insert.bind(json::serialize(record.extra)).bind(record.created_at).bind(record.updated_at);
  insert.bind(record.status_updated_at).bind(record.total_egress).bind(record.total_ingress);
  insert.bind(record.total_duration)
      .bind(static_cast<std::int64_t>(policy.version))
      .bind_blob(sealed_policy);
  insert.bind(json::serialize(policy.response)).bind_blob(sealed_environment);
  if (Result<> done = insert.run(); !done) return std::unexpected(done.error());
  const std::int64_t id = sqlite3_last_insert_rowid(database.handle());
  for (const auto& [key, value] : record.tags) {
    Statement tag(database, "INSERT INTO tags (sandbox, key, value) VALUES (?,?,?)");
    if (Result<> done = tag.bind(id).bind(key).bind(value).run(); !done)
      return std::unexpected(done.error());
  }
  return id;
}

Result<> insert_session(Database& database, std::int64_t sandbox, const SessionRecord& record) {
  Statement insert(database,
                   "INSERT INTO sessions (id, sandbox, status, vcpus, memory_mb, region, cwd, "
                   "timeout, requested_at, "
                   "created_at, updated_at, started_at, requested_stop_at, stopped_at, aborted_at, "
                   "egress, ingress, failure, "
                   "slot, image_dir, worker_pid, worker_start, init_pid, init_start, agent_socket) "
                   "VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)");
  insert.bind(record.id)
      .bind(sandbox)
      .bind(record.status)
      .bind(std::int64_t{record.vcpus})
      .bind(record.memory_mb);
  insert.bind(record.region)
      .bind(record.cwd)
      .bind(record.timeout)
      .bind(record.requested_at)
      .bind(record.created_at);
  insert.bind(record.updated_at)
      .bind(record.started_at)
      .bind(record.requested_stop_at)
      .bind(record.stopped_at);
  insert.bind(record.aborted_at).bind(record.egress).bind(record.ingress).bind(record.failure);
  insert.bind(std::int64_t{record.slot})
      .bind(record.image_dir)
      .bind(std::int64_t{record.worker_pid});
  insert.bind(static_cast<std::int64_t>(record.worker_start)).bind(std::int64_t{record.init_pid});
  insert.bind(static_cast<std::int64_t>(record.init_start)).bind(record.agent_socket);
  return insert.run();
}

}  // namespace sallyport::store
