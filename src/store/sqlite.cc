// SPDX-License-Identifier: Apache-2.0
#include "store/sqlite.h"

namespace sallyport::store {

Result<Database> Database::open(const std::string& path) {
  sqlite3* handle = nullptr;
  const int result =
      sqlite3_open_v2(path.c_str(), &handle,
                      SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_FULLMUTEX, nullptr);
  Database database(handle);
  if (result != SQLITE_OK) return database.error("open " + path);
  sqlite3_busy_timeout(handle, 5000);
  sqlite3_extended_result_codes(handle, 1);
  return database;
}

Result<> Database::run(const char* sql) {
  if (sqlite3_exec(handle_, sql, nullptr, nullptr, nullptr) != SQLITE_OK) return error("store");
  return {};
}

std::unexpected<Error> Database::error(std::string_view what) const {
  const int code = sqlite3_extended_errcode(handle_);
  const bool taken = code == SQLITE_CONSTRAINT_UNIQUE || code == SQLITE_CONSTRAINT_PRIMARYKEY;
  return fail(taken ? Code::conflict : Code::internal,
              std::string(what) + ": " + sqlite3_errmsg(handle_));
}

Statement::Statement(Database& database, std::string_view sql) : database_(database) {
  prepared_ = sqlite3_prepare_v2(database.handle(), sql.data(), static_cast<int>(sql.size()),
                                 &handle_, nullptr);
}

Statement& Statement::bind(std::string_view text) {
  sqlite3_bind_text(handle_, ++parameter_, text.data(), static_cast<int>(text.size()),
                    SQLITE_TRANSIENT);
  return *this;
}
Statement& Statement::bind(std::int64_t number) {
  sqlite3_bind_int64(handle_, ++parameter_, number);
  return *this;
}
Statement& Statement::bind_null() {
  sqlite3_bind_null(handle_, ++parameter_);
  return *this;
}
Statement& Statement::bind_blob(std::string_view bytes) {
  sqlite3_bind_blob64(handle_, ++parameter_, bytes.data(), bytes.size(), SQLITE_TRANSIENT);
  return *this;
}

Result<bool> Statement::step() {
  if (prepared_ != SQLITE_OK) return database_.error("store: prepare");
  column_ = 0;
  switch (sqlite3_step(handle_)) {
    case SQLITE_ROW:
      return true;
    case SQLITE_DONE:
      return false;
    default:
      return database_.error("store");
  }
}

Result<> Statement::run() {
  const Result<bool> row = step();
  if (!row) return std::unexpected(row.error());
  return {};
}

std::string Statement::text() {
  const int column = column_++;
  const auto* data = reinterpret_cast<const char*>(sqlite3_column_text(handle_, column));
  return data == nullptr
             ? std::string()
             : std::string(data, static_cast<std::size_t>(sqlite3_column_bytes(handle_, column)));
}
std::int64_t Statement::number() { return sqlite3_column_int64(handle_, column_++); }
std::optional<std::int64_t> Statement::maybe_number() {
  if (sqlite3_column_type(handle_, column_) == SQLITE_NULL) {
    ++column_;
    return std::nullopt;
  }
  return number();
}
std::optional<std::string> Statement::maybe_text() {
  if (sqlite3_column_type(handle_, column_) == SQLITE_NULL) {
    ++column_;
    return std::nullopt;
  }
  return text();
}
std::string Statement::blob() {
  const int column = column_++;
  const auto* data = static_cast<const char*>(sqlite3_column_blob(handle_, column));
  return data == nullptr
             ? std::string()
             : std::string(data, static_cast<std::size_t>(sqlite3_column_bytes(handle_, column)));
}

}  // namespace sallyport::store
