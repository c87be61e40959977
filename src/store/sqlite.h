// SPDX-License-Identifier: Apache-2.0
// The little of SQLite that the store uses: a connection, a prepared statement that binds and reads
// by type, and a transaction that rolls back unless committed. Errors are values with SQLite's own
// sentence.
#pragma once

#include <sqlite3.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace sallyport::store {

class Database {
 public:
  static Result<Database> open(const std::string& path);
  Database(Database&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Database& operator=(Database&&) = delete;
  Database(const Database&) = delete;
  ~Database() { sqlite3_close(handle_); }

  [[nodiscard]] sqlite3* handle() const { return handle_; }
  [[nodiscard]] Result<> run(const char* sql);  // any number of statements without parameters
  [[nodiscard]] std::unexpected<Error> error(std::string_view what) const;
  [[nodiscard]] int changes() const { return sqlite3_changes(handle_); }

 private:
  explicit Database(sqlite3* handle) : handle_(handle) {}
  sqlite3* handle_;
};

// Parameters are bound in order. Text is copied, so temporaries may be bound.
class Statement {
 public:
  Statement(Database& database, std::string_view sql);
  Statement(const Statement&) = delete;
  Statement& operator=(const Statement&) = delete;
  ~Statement() { sqlite3_finalize(handle_); }

  Statement& bind(std::string_view text);
  Statement& bind(std::int64_t number);
  template <class T>
  Statement& bind(const std::optional<T>& value) {
    return value ? bind(*value) : bind_null();
  }
  Statement& bind_null();
  Statement& bind_blob(std::string_view bytes);

  [[nodiscard]] Result<bool> step();  // true: a row is there
  [[nodiscard]] Result<> run();       // expects no row

  // Columns are read in order; the first read of a row starts at column 0.
  std::string text();
  std::int64_t number();
  std::optional<std::int64_t> maybe_number();
  std::optional<std::string> maybe_text();
  std::string blob();

 private:
  Database& database_;
  sqlite3_stmt* handle_ = nullptr;
  int prepared_;
  int parameter_ = 0;
  int column_ = 0;
};

class Transaction {
 public:
  explicit Transaction(Database& database)
      : database_(database), begun_(database.run("BEGIN IMMEDIATE")) {}
  Transaction(const Transaction&) = delete;
  Transaction& operator=(const Transaction&) = delete;
  ~Transaction() {
    if (begun_ && !done_) (void)database_.run("ROLLBACK");
  }
  [[nodiscard]] const Result<>& begun() const { return begun_; }
  [[nodiscard]] Result<> commit() {
    const Result<> result = database_.run("COMMIT");
    done_ = result.has_value();
    return result;
  }

 private:
  Database& database_;
  Result<> begun_;
  bool done_ = false;
};

}  // namespace sallyport::store
