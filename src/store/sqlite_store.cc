// SPDX-License-Identifier: Apache-2.0
#include "store/sqlite_store.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <boost/json/serialize.hpp>
#include <charconv>
#include <mutex>

#include "base/fd.h"
#include "store/sqlite.h"
#include "store/sqlite_rows.h"
#include "store/sqlite_schema.h"

namespace sallyport::store {
namespace {

constexpr std::size_t kMaxPage = 50;

std::string purpose(std::string_view what, const SandboxKey& key) {
  return fmt::format("{}/{}/{}/{}", what, key.team, key.project, key.name);
}

// A cursor is the sort value and row id of the last item: "<id>.<value>". Clients treat it as
// opaque.
struct Cursor {
  std::int64_t id = 0;
  std::string value;
};
Result<Cursor> parse_cursor(std::string_view text) {
  Cursor cursor;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), cursor.id);
  if (error != std::errc() || end == text.data() + text.size() || *end != '.') {
    return fail(Code::invalid, "cursor: not one that this server gave");
  }
  cursor.value = std::string(end + 1, text.data() + text.size());
  return cursor;
}

class SqliteStore : public Store {
 public:
  SqliteStore(Database database, Sealer& sealer)
      : database_(std::move(database)), sealer_(sealer) {}

  Result<> add_sandbox(const SandboxRecord& sandbox, const SessionRecord& session,
                       const PolicyRecord& policy, const Secret& environment) override;
  Result<SandboxRecord> sandbox(const SandboxKey& key) override;
  Result<SandboxRecord> find_sandbox(const SandboxKey& key) override;
  Result<PageOf<SandboxRecord>> sandboxes(const SandboxFilter& filter, const Page& page) override;
  Result<> remove_sandbox(const SandboxKey& key) override;
  Result<Secret> environment(const SandboxKey& key) override;
  Result<SessionRecord> session(std::string_view id) override;
  Result<PageOf<SessionRecord>> sessions(const SessionFilter& filter, const Page& page) override;
  Result<std::vector<SessionRecord>> live_sessions() override;
  Result<> update_session(const SessionRecord& session) override;
  Result<PolicyRecord> policy(const SandboxKey& key) override;
  Result<> set_policy(const SandboxKey& key, const PolicyRecord& policy) override;
  Result<> put_command(const CommandRecord& command) override;
  Result<CommandRecord> command(std::string_view session, std::string_view id) override;
  Result<std::vector<CommandRecord>> commands(std::string_view session) override;

 private:
  std::mutex mutex_;  // one connection, one transaction at a time
  Database database_;
  Sealer& sealer_;
};

std::unexpected<Error> no_sandbox(const SandboxKey& key) {
  return fail(Code::not_found, fmt::format("sandbox '{}' not found", key.name));
}

Result<> SqliteStore::add_sandbox(const SandboxRecord& sandbox, const SessionRecord& session,
                                  const PolicyRecord& policy, const Secret& environment) {
  const auto sealed_policy = sealer_.seal(policy.request, purpose("policy", sandbox.key));
  if (!sealed_policy) return std::unexpected(sealed_policy.error());
  const auto sealed_environment = sealer_.seal(environment, purpose("environment", sandbox.key));
  if (!sealed_environment) return std::unexpected(sealed_environment.error());
  const std::lock_guard lock(mutex_);
  Transaction transaction(database_);
  if (!transaction.begun()) return transaction.begun();
  const auto row = insert_sandbox(database_, sandbox, policy, *sealed_policy, *sealed_environment);
  if (!row) return std::unexpected(row.error());
  if (Result<> done = insert_session(database_, *row, session); !done) return done;
  return transaction.commit();
}

Result<SandboxRecord> SqliteStore::sandbox(const SandboxKey& key) {
  const std::lock_guard lock(mutex_);
  Statement select(
      database_,
      fmt::format("SELECT {} FROM sandboxes s WHERE team = ? AND project = ? AND name = ?",
                  kSandboxColumns));
  const auto row = select.bind(key.team).bind(key.project).bind(key.name).step();
  if (!row) return std::unexpected(row.error());
  if (!*row) return no_sandbox(key);
  return read_sandbox(select).record;
}

Result<SandboxRecord> SqliteStore::find_sandbox(const SandboxKey& key) {
  if (!key.team.empty()) return sandbox(key);
  const std::lock_guard lock(mutex_);
  Statement select(
      database_,
      fmt::format("SELECT {} FROM sandboxes s WHERE project = ? AND name = ? ORDER BY id LIMIT 1",
                  kSandboxColumns));
  const auto row = select.bind(key.project).bind(key.name).step();
  if (!row) return std::unexpected(row.error());
  if (!*row) return no_sandbox(key);
  return read_sandbox(select).record;
}

Result<PageOf<SandboxRecord>> SqliteStore::sandboxes(const SandboxFilter& filter,
                                                     const Page& page) {
  const bool by_name = filter.sort == SandboxFilter::Sort::name;
  const char* const column = by_name ? "s.name"
                             : filter.sort == SandboxFilter::Sort::created_at
                                 ? "s.created_at"
                                 : "s.status_updated_at";
  const std::size_t limit = std::min(page.limit, kMaxPage);
  std::optional<Cursor> cursor;
  if (!page.cursor.empty()) {
    auto parsed = parse_cursor(page.cursor);
    if (!parsed) return std::unexpected(parsed.error());
    cursor = *std::move(parsed);
  }
  std::string sql = fmt::format("SELECT {}, {} FROM sandboxes s WHERE 1", kSandboxColumns, column);
  if (filter.team) sql += " AND s.team = ?";
  if (filter.project) sql += " AND s.project = ?";
  if (filter.status) sql += " AND s.status = ?";
  if (filter.name_prefix) sql += " AND substr(s.name, 1, length(?)) = ?";
  if (filter.tag)
    sql += " AND EXISTS (SELECT 1 FROM tags WHERE sandbox = s.id AND key = ? AND value = ?)";
  if (cursor)
    sql += fmt::format(" AND ({}, s.id) {} ({}, ?)", column, page.descending ? "<" : ">",
                       by_name ? "?" : "CAST(? AS INTEGER)");
  const char* const direction = page.descending ? "DESC" : "ASC";
  sql += fmt::format(" ORDER BY {} {}, s.id {} LIMIT {}", column, direction, direction, limit + 1);

  const std::lock_guard lock(mutex_);
  Statement select(database_, sql);
  if (filter.team) select.bind(*filter.team);
  if (filter.project) select.bind(*filter.project);
  if (filter.status) select.bind(*filter.status);
  if (filter.name_prefix) select.bind(*filter.name_prefix).bind(*filter.name_prefix);
  if (filter.tag) select.bind(filter.tag->first).bind(filter.tag->second);
  if (cursor) select.bind(cursor->value).bind(cursor->id);

  PageOf<SandboxRecord> out;
  std::string last;
  while (true) {
    const auto row = select.step();
    if (!row) return std::unexpected(row.error());
    if (!*row) return out;
    if (out.items.size() == limit) {
      out.next = last;
      return out;
    }
    SandboxRow sandbox = read_sandbox(select);
    last = fmt::format("{}.{}", sandbox.id, select.text());
    out.items.push_back(std::move(sandbox.record));
  }
}

Result<> SqliteStore::remove_sandbox(const SandboxKey& key) {
  const std::lock_guard lock(mutex_);
  Statement remove(database_, "DELETE FROM sandboxes WHERE team = ? AND project = ? AND name = ?");
  if (Result<> done = remove.bind(key.team).bind(key.project).bind(key.name).run(); !done)
    return done;
  if (database_.changes() == 0) return no_sandbox(key);
  return {};
}

Result<Secret> SqliteStore::environment(const SandboxKey& key) {
  std::string sealed;
  {
    const std::lock_guard lock(mutex_);
    Statement select(
        database_,
        "SELECT environment_sealed FROM sandboxes WHERE team = ? AND project = ? AND name = ?");
    const auto row = select.bind(key.team).bind(key.project).bind(key.name).step();
    if (!row) return std::unexpected(row.error());
    if (!*row) return no_sandbox(key);
    sealed = select.blob();
  }
  return sealer_.open(sealed, purpose("environment", key));
}

Result<SessionRecord> SqliteStore::session(std::string_view id) {
  const std::lock_guard lock(mutex_);
  Statement select(
      database_,
      fmt::format("SELECT {} FROM sessions t JOIN sandboxes s ON s.id = t.sandbox WHERE t.id = ?",
                  kSessionColumns));
  const auto row = select.bind(id).step();
  if (!row) return std::unexpected(row.error());
  if (!*row) return fail(Code::not_found, fmt::format("session '{}' not found", id));
  return read_session(select).record;
}

Result<PageOf<SessionRecord>> SqliteStore::sessions(const SessionFilter& filter, const Page& page) {
  const std::size_t limit = std::min(page.limit, kMaxPage);
  std::int64_t after = 0;
  if (!page.cursor.empty()) {
    const auto parsed = parse_cursor(page.cursor);
    if (!parsed) return std::unexpected(parsed.error());
    after = parsed->id;
  }
  std::string sql = fmt::format(
      "SELECT {} FROM sessions t JOIN sandboxes s ON s.id = t.sandbox WHERE 1", kSessionColumns);
  if (filter.team) sql += " AND s.team = ?";
  if (filter.project) sql += " AND s.project = ?";
  if (filter.name) sql += " AND s.name = ?";
  if (after != 0) sql += page.descending ? " AND t.seq < ?" : " AND t.seq > ?";
  sql += fmt::format(" ORDER BY t.seq {} LIMIT {}", page.descending ? "DESC" : "ASC", limit + 1);

  const std::lock_guard lock(mutex_);
  Statement select(database_, sql);
  if (filter.team) select.bind(*filter.team);
  if (filter.project) select.bind(*filter.project);
  if (filter.name) select.bind(*filter.name);
  if (after != 0) select.bind(after);

  PageOf<SessionRecord> out;
  std::int64_t last = 0;
  while (true) {
    const auto row = select.step();
    if (!row) return std::unexpected(row.error());
    if (!*row) return out;
    if (out.items.size() == limit) {
      out.next = fmt::format("{}.", last);
      return out;
    }
    SessionRow session = read_session(select);
    last = session.seq;
    out.items.push_back(std::move(session.record));
  }
}

Result<std::vector<SessionRecord>> SqliteStore::live_sessions() {
  const std::lock_guard lock(mutex_);
  Statement select(
      database_,
      fmt::format("SELECT {} FROM sessions t JOIN sandboxes s ON s.id = t.sandbox "
                  "WHERE t.status NOT IN ('stopped', 'failed', 'aborted') ORDER BY t.seq",
                  kSessionColumns));
  std::vector<SessionRecord> out;
  while (true) {
    const auto row = select.step();
    if (!row) return std::unexpected(row.error());
    if (!*row) return out;
    out.push_back(read_session(select).record);
  }
}

Result<> SqliteStore::update_session(const SessionRecord& session) {
  const std::lock_guard lock(mutex_);
  Transaction transaction(database_);
  if (!transaction.begun()) return transaction.begun();
  Statement update(database_,
                   "UPDATE sessions SET status=?, timeout=?, updated_at=?, started_at=?, "
                   "requested_stop_at=?, stopped_at=?, "
                   "aborted_at=?, egress=?, ingress=?, failure=?, cwd=?, slot=?, image_dir=?, "
                   "worker_pid=?, worker_start=?, "
                   "init_pid=?, init_start=?, agent_socket=? WHERE id = ?");
  update.bind(session.status)
      .bind(session.timeout)
      .bind(session.updated_at)
      .bind(session.started_at);
  update.bind(session.requested_stop_at).bind(session.stopped_at).bind(session.aborted_at);
  update.bind(session.egress).bind(session.ingress).bind(session.failure).bind(session.cwd);
  update.bind(std::int64_t{session.slot})
      .bind(session.image_dir)
      .bind(std::int64_t{session.worker_pid});
  update.bind(static_cast<std::int64_t>(session.worker_start)).bind(std::int64_t{session.init_pid});
  update.bind(static_cast<std::int64_t>(session.init_start))
      .bind(session.agent_socket)
      .bind(session.id);
  if (Result<> done = update.run(); !done) return done;
  if (database_.changes() == 0)
    return fail(Code::not_found, fmt::format("session '{}' not found", session.id));
  // The totals are sums over the sessions rather than running counts: writing the same session
  // twice changes nothing.
  Statement carry(
      database_,
      "UPDATE sandboxes SET status_updated_at = CASE WHEN status = ? THEN status_updated_at ELSE ? "
      "END, "
      "status = ?, updated_at = ?, "
      "total_egress = (SELECT sum(egress) FROM sessions WHERE sandbox = sandboxes.id), "
      "total_ingress = (SELECT sum(ingress) FROM sessions WHERE sandbox = sandboxes.id), "
      "total_duration = (SELECT coalesce(sum(stopped_at - started_at), 0) FROM sessions "
      "                  WHERE sandbox = sandboxes.id AND stopped_at IS NOT NULL AND started_at IS "
      "NOT NULL) "
      "WHERE current_session = ?");
  carry.bind(session.status)
      .bind(session.updated_at)
      .bind(session.status)
      .bind(session.updated_at)
      .bind(session.id);
  if (Result<> done = carry.run(); !done) return done;
  return transaction.commit();
}

Result<PolicyRecord> SqliteStore::policy(const SandboxKey& key) {
  PolicyRecord out;
  std::string sealed;
  {
    const std::lock_guard lock(mutex_);
    Statement select(database_,
                     "SELECT policy_version, policy_sealed, policy_response FROM sandboxes "
                     "WHERE team = ? AND project = ? AND name = ?");
    const auto row = select.bind(key.team).bind(key.project).bind(key.name).step();
    if (!row) return std::unexpected(row.error());
    if (!*row) return no_sandbox(key);
    out.version = static_cast<std::uint64_t>(select.number());
    sealed = select.blob();
    auto response = parse_json(select.text(), {.max_bytes = 64U << 20, .max_depth = 64});
    if (!response) return std::unexpected(response.error());
    out.response = *std::move(response);
  }
  auto request = sealer_.open(sealed, purpose("policy", key));
  if (!request) return std::unexpected(request.error());
  out.request = *std::move(request);
  return out;
}

Result<> SqliteStore::set_policy(const SandboxKey& key, const PolicyRecord& policy) {
  const auto sealed = sealer_.seal(policy.request, purpose("policy", key));
  if (!sealed) return std::unexpected(sealed.error());
  const std::lock_guard lock(mutex_);
  Statement update(
      database_,
      "UPDATE sandboxes SET policy_version = ?, policy_sealed = ?, policy_response = ? "
      "WHERE team = ? AND project = ? AND name = ? AND policy_version < ?");
  update.bind(static_cast<std::int64_t>(policy.version))
      .bind_blob(*sealed)
      .bind(json::serialize(policy.response));
  update.bind(key.team)
      .bind(key.project)
      .bind(key.name)
      .bind(static_cast<std::int64_t>(policy.version));
  if (Result<> done = update.run(); !done) return done;
  if (database_.changes() == 0) {
    return fail(Code::conflict,
                fmt::format("policy version {} of '{}' is not newer than what is stored",
                            policy.version, key.name));
  }
  return {};
}

Result<> SqliteStore::put_command(const CommandRecord& command) {
  json::array args(command.args.begin(), command.args.end());
  std::optional<std::int64_t> code;
  if (command.exit_code) code = *command.exit_code;
  const std::lock_guard lock(mutex_);
  Statement insert(
      database_,
      "INSERT INTO commands (id, session, name, args, cwd, started_at, exit_code, duration) "
      "VALUES (?,?,?,?,?,?,?,?) ON CONFLICT (id) DO UPDATE SET exit_code = excluded.exit_code, "
      "duration = excluded.duration");
  insert.bind(command.id)
      .bind(command.session)
      .bind(command.name)
      .bind(json::serialize(args))
      .bind(command.cwd);
  return insert.bind(command.started_at).bind(code).bind(command.duration).run();
}

constexpr const char* kCommandColumns =
    "id, session, name, args, cwd, started_at, exit_code, duration";

Result<CommandRecord> SqliteStore::command(std::string_view session, std::string_view id) {
  const std::lock_guard lock(mutex_);
  Statement select(database_, fmt::format("SELECT {} FROM commands WHERE session = ? AND id = ?",
                                          kCommandColumns));
  const auto row = select.bind(session).bind(id).step();
  if (!row) return std::unexpected(row.error());
  if (!*row) return fail(Code::not_found, fmt::format("command '{}' not found", id));
  return read_command(select);
}

Result<std::vector<CommandRecord>> SqliteStore::commands(std::string_view session) {
  const std::lock_guard lock(mutex_);
  Statement select(database_, fmt::format("SELECT {} FROM commands WHERE session = ? ORDER BY seq",
                                          kCommandColumns));
  select.bind(session);
  std::vector<CommandRecord> out;
  while (true) {
    const auto row = select.step();
    if (!row) return std::unexpected(row.error());
    if (!*row) return out;
    out.push_back(read_command(select));
  }
}

}  // namespace

Result<std::unique_ptr<Store>> open_sqlite_store(const std::string& path, Sealer& sealer) {
  // SQLite gives its side files the mode of the main one, so making that first keeps all three to
  // root.
  if (path != ":memory:" &&
      !Fd(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600))) {
    return fail_errno("open " + path);
  }
  auto database = Database::open(path);
  if (!database) return std::unexpected(database.error());
  if (Result<> done = database->run(
          "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL; PRAGMA foreign_keys = ON; "
          "PRAGMA secure_delete = ON; PRAGMA trusted_schema = OFF");
      !done) {
    return std::unexpected(done.error());
  }
  if (Result<> done = migrate(*database); !done) return std::unexpected(done.error());
  return std::make_unique<SqliteStore>(*std::move(database), sealer);
}

}  // namespace sallyport::store
