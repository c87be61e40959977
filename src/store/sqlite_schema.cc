// SPDX-License-Identifier: Apache-2.0
#include "store/sqlite_schema.h"

#include <fmt/format.h>

#include <array>

namespace sallyport::store {
namespace {

constexpr const char* kFirst = R"sql(
CREATE TABLE sandboxes (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  team TEXT NOT NULL, project TEXT NOT NULL, name TEXT NOT NULL,
  current_session TEXT NOT NULL, status TEXT NOT NULL, persistent INTEGER NOT NULL,
  vcpus INTEGER NOT NULL, memory_mb INTEGER NOT NULL, timeout INTEGER NOT NULL,
  image TEXT NOT NULL, region TEXT NOT NULL, network_id TEXT, extra TEXT NOT NULL,
  created_at INTEGER NOT NULL, updated_at INTEGER NOT NULL, status_updated_at INTEGER NOT NULL,
  total_egress INTEGER NOT NULL, total_ingress INTEGER NOT NULL, total_duration INTEGER NOT NULL,
  policy_version INTEGER NOT NULL, policy_sealed BLOB NOT NULL, policy_response TEXT NOT NULL,
  environment_sealed BLOB NOT NULL,
  UNIQUE (team, project, name));
CREATE INDEX sandboxes_created ON sandboxes (created_at, id);
CREATE INDEX sandboxes_status ON sandboxes (status_updated_at, id);
CREATE TABLE tags (
  sandbox INTEGER NOT NULL REFERENCES sandboxes ON DELETE CASCADE, key TEXT NOT NULL, value TEXT NOT NULL,
  PRIMARY KEY (sandbox, key)) WITHOUT ROWID;
CREATE INDEX tags_value ON tags (key, value);
CREATE TABLE sessions (
  seq INTEGER PRIMARY KEY AUTOINCREMENT,
  id TEXT NOT NULL UNIQUE,
  sandbox INTEGER NOT NULL REFERENCES sandboxes ON DELETE CASCADE,
  status TEXT NOT NULL, vcpus INTEGER NOT NULL, memory_mb INTEGER NOT NULL, region TEXT NOT NULL, cwd TEXT NOT NULL,
  timeout INTEGER NOT NULL, requested_at INTEGER NOT NULL, created_at INTEGER NOT NULL, updated_at INTEGER NOT NULL,
  started_at INTEGER, requested_stop_at INTEGER, stopped_at INTEGER, aborted_at INTEGER,
  egress INTEGER NOT NULL, ingress INTEGER NOT NULL, failure TEXT NOT NULL,
  slot INTEGER NOT NULL, image_dir TEXT NOT NULL, worker_pid INTEGER NOT NULL, worker_start INTEGER NOT NULL,
  init_pid INTEGER NOT NULL, init_start INTEGER NOT NULL, agent_socket TEXT NOT NULL);
CREATE INDEX sessions_sandbox ON sessions (sandbox);
CREATE INDEX sessions_status ON sessions (status);
CREATE TABLE commands (
  seq INTEGER PRIMARY KEY AUTOINCREMENT,
  id TEXT NOT NULL UNIQUE,
  session TEXT NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
  name TEXT NOT NULL, args TEXT NOT NULL, cwd TEXT NOT NULL,
  started_at INTEGER NOT NULL, exit_code INTEGER, duration INTEGER);
CREATE INDEX commands_session ON commands (session);
)sql";

constexpr std::array kMigrations = {kFirst};

Result<int> stored_version(Database& database) {
  Statement read(database, "PRAGMA user_version");
  const Result<bool> row = read.step();
  if (!row) return std::unexpected(row.error());
  return static_cast<int>(read.number());
}

}  // namespace

int schema_version() { return static_cast<int>(kMigrations.size()); }

Result<> migrate(Database& database) {
  const Result<int> stored = stored_version(database);
  if (!stored) return std::unexpected(stored.error());
  const int version = *stored;
  if (version < 0 || version > schema_version()) {
    return fail(
        Code::invalid,
        fmt::format("the store has schema version {}, this sandboxd knows {}: use the newer "
                    "sandboxd that wrote it",
                    version, schema_version()));
  }
  for (int from = version; from < schema_version(); ++from) {
    Transaction transaction(database);
    if (!transaction.begun()) return transaction.begun();
    if (Result<> done = database.run(kMigrations[static_cast<std::size_t>(from)]); !done)
      return done;
    const std::string mark = fmt::format("PRAGMA user_version = {}", from + 1);
    if (Result<> done = database.run(mark.c_str()); !done) return done;
    if (Result<> done = transaction.commit(); !done) return done;
  }
  return {};
}

}  // namespace sallyport::store
