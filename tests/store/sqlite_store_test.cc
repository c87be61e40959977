// SPDX-License-Identifier: Apache-2.0
// The store: what goes in comes out, names are unique, pages are complete, versions only grow,
// secrets pass the sealer.
#include "store/sqlite_store.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "store/sqlite.h"
#include "store/sqlite_schema.h"

namespace sallyport::store {
namespace {

// Turns every byte round, so that a test can tell sealed from open; refuses what was sealed for
// another purpose.
class FlippingSealer : public Sealer {
 public:
  Result<std::string> seal(const Secret& secret, std::string_view purpose) override {
    return std::string(purpose) + "|" + flip(secret.reveal());
  }
  Result<Secret> open(std::string_view sealed, std::string_view purpose) override {
    if (!sealed.starts_with(std::string(purpose) + "|"))
      return fail(Code::internal, "sealed for another purpose");
    return Secret(flip(sealed.substr(purpose.size() + 1)));
  }

 private:
  static std::string flip(std::string_view text) {
    std::string out(text);
    for (char& c : out) c = static_cast<char>(~c);
    return out;
  }
};

class SqliteStoreTest : public testing::Test {
 protected:
  void SetUp() override {
    char pattern[] = "/tmp/sallyport-store-XXXXXX";
    ASSERT_NE(::mkdtemp(pattern), nullptr);
    directory_ = pattern;
    open();
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }

  void open() {
    store_.reset();
    auto opened = open_sqlite_store(path(), sealer_);
    ASSERT_TRUE(opened) << opened.error().message;
    store_ = *std::move(opened);
  }
  std::string path() const { return directory_ + "/db"; }

  static SandboxRecord sandbox(const std::string& name, Millis created = 1) {
    SandboxRecord out;
    out.key = {"team", "project", name};
    out.current_session = "sbx_" + name;
    out.status = "pending";
    out.image = "base";
    out.created_at = out.updated_at = out.status_updated_at = created;
    return out;
  }
  static SessionRecord session(const SandboxRecord& sandbox) {
    SessionRecord out;
    out.id = sandbox.current_session;
    out.sandbox = sandbox.key;
    out.status = sandbox.status;
    out.created_at = sandbox.created_at;
    return out;
  }
  Result<> add(const SandboxRecord& record, const std::string& policy = "{}") {
    return store_->add_sandbox(record, session(record),
                               {1, Secret(policy), json::object{{"mode", "custom"}}}, Secret("{}"));
  }

  FlippingSealer sealer_;
  std::string directory_;
  std::unique_ptr<Store> store_;
};

TEST_F(SqliteStoreTest, what_is_added_is_read_back_after_reopening) {
  SandboxRecord record = sandbox("web");
  record.tags = {{"env", "test"}, {"owner", "x\"y"}};
  record.network_id = "corp";
  record.extra = {{"snapshotExpiration", 5}};
  SessionRecord first = session(record);
  first.slot = 7;
  first.image_dir = "/images/base";
  ASSERT_TRUE(store_->add_sandbox(record, first,
                                  {1, Secret("{}"), json::object{{"mode", "allow-all"}}},
                                  Secret(R"({"A":"b"})")));
  open();
  const auto read = store_->sandbox(record.key);
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->tags, record.tags);
  EXPECT_EQ(read->network_id, "corp");
  EXPECT_EQ(read->extra.at("snapshotExpiration").as_int64(), 5);
  EXPECT_EQ(store_->session("sbx_web")->slot, 7U);
  EXPECT_EQ(store_->environment(record.key)->reveal(), R"({"A":"b"})");
  EXPECT_EQ(store_->policy(record.key)->version, 1U);
}

TEST_F(SqliteStoreTest, a_name_is_unique_in_its_project_only) {
  ASSERT_TRUE(add(sandbox("web")));
  SandboxRecord again = sandbox("web");
  again.current_session = "sbx_other";
  EXPECT_EQ(add(again).error().code, Code::conflict);
  again.key.project = "elsewhere";
  EXPECT_TRUE(add(again));
}

// SB-062: the file never holds what the sealer was given.
TEST_F(SqliteStoreTest, secrets_reach_the_disk_only_sealed) {
  ASSERT_TRUE(
      add(sandbox("web"),
          R"({"allow":{"a.example.com":[{"transform":[{"headers":{"k":"hunter2hunter2"}}]}]}})"));
  ASSERT_TRUE(store_->set_policy({"team", "project", "web"},
                                 {2, Secret("swordfish-swordfish"), json::object()}));
  EXPECT_EQ(store_->policy({"team", "project", "web"})->request.reveal(), "swordfish-swordfish");
  store_.reset();
  for (const auto& entry : std::filesystem::directory_iterator(directory_)) {
    std::stringstream content;
    content << std::ifstream(entry.path()).rdbuf();
    EXPECT_EQ(content.str().find("hunter2"), std::string::npos) << entry.path();
    EXPECT_EQ(content.str().find("swordfish"), std::string::npos) << entry.path();
  }
}

TEST_F(SqliteStoreTest, the_file_belongs_to_its_owner_alone) {
  const auto mode = std::filesystem::status(path()).permissions();
  EXPECT_EQ(mode & (std::filesystem::perms::group_all | std::filesystem::perms::others_all),
            std::filesystem::perms::none);
}

// R-095: the last writer wins by version, an older one never replaces a newer.
TEST_F(SqliteStoreTest, policy_versions_only_grow) {
  ASSERT_TRUE(add(sandbox("web")));
  const SandboxKey key = {"team", "project", "web"};
  EXPECT_TRUE(store_->set_policy(key, {3, Secret("three"), json::object()}));
  EXPECT_EQ(store_->set_policy(key, {3, Secret("again"), json::object()}).error().code,
            Code::conflict);
  EXPECT_EQ(store_->set_policy(key, {2, Secret("two"), json::object()}).error().code,
            Code::conflict);
  EXPECT_EQ(store_->policy(key)->request.reveal(), "three");
}

TEST_F(SqliteStoreTest, pages_hold_every_sandbox_once_in_order) {
  for (int i = 0; i < 23; ++i) {
    SandboxRecord record =
        sandbox("box" + std::to_string(i), 1000 + i / 3);  // equal times are told apart by the row
    record.current_session = "sbx_" + std::to_string(i);
    ASSERT_TRUE(add(record));
  }
  for (const auto sort : {SandboxFilter::Sort::created_at, SandboxFilter::Sort::name,
                          SandboxFilter::Sort::status_updated_at}) {
    for (const bool descending : {true, false}) {
      SandboxFilter filter;
      filter.sort = sort;
      Page page{.limit = 5, .cursor = "", .descending = descending};
      std::vector<std::string> names;
      while (true) {
        const auto got = store_->sandboxes(filter, page);
        ASSERT_TRUE(got) << got.error().message;
        for (const auto& each : got->items) names.push_back(each.key.name);
        if (!got->next) break;
        page.cursor = *got->next;
      }
      EXPECT_EQ(names.size(), 23U);
      EXPECT_EQ(std::set(names.begin(), names.end()).size(), 23U);
      if (sort == SandboxFilter::Sort::name) {
        EXPECT_TRUE(descending ? std::ranges::is_sorted(names, std::greater<>())
                               : std::ranges::is_sorted(names));
      }
    }
  }
}

TEST_F(SqliteStoreTest, filters_join) {
  for (const char* name : {"web-1", "web-2", "db-1"}) {
    SandboxRecord record = sandbox(name);
    record.tags = {{"kind", std::string(name).substr(0, 2)}};
    ASSERT_TRUE(add(record));
  }
  const auto count = [&](const SandboxFilter& filter) {
    return store_->sandboxes(filter, {})->items.size();
  };
  SandboxFilter filter;
  filter.sort = SandboxFilter::Sort::name;
  filter.name_prefix = "web-";
  EXPECT_EQ(count(filter), 2U);
  filter.name_prefix = "web%";  // no wildcard in it
  EXPECT_EQ(count(filter), 0U);
  filter = {};
  filter.tag = {"kind", "db"};
  EXPECT_EQ(count(filter), 1U);
  filter.status = "running";
  EXPECT_EQ(count(filter), 0U);
  filter = {};
  filter.team = "other";
  EXPECT_EQ(count(filter), 0U);
}

TEST_F(SqliteStoreTest, a_foreign_cursor_is_refused) {
  for (const char* cursor : {"x", "12", ".", "'; DROP TABLE sandboxes; --"}) {
    EXPECT_EQ(store_->sandboxes({}, {.limit = 5, .cursor = cursor}).error().code, Code::invalid)
        << cursor;
  }
}

TEST_F(SqliteStoreTest, a_session_carries_its_status_and_sums_over) {
  ASSERT_TRUE(add(sandbox("web")));
  SessionRecord record = *store_->session("sbx_web");
  record.status = "stopped";
  record.started_at = 100;
  record.stopped_at = 350;
  record.egress = 11;
  record.updated_at = 400;
  ASSERT_TRUE(store_->update_session(record));
  ASSERT_TRUE(store_->update_session(record));  // writing it again adds nothing
  const auto sandbox = store_->sandbox({"team", "project", "web"});
  EXPECT_EQ(sandbox->status, "stopped");
  EXPECT_EQ(sandbox->status_updated_at, 400);
  EXPECT_EQ(sandbox->total_duration, 250);
  EXPECT_EQ(sandbox->total_egress, 11);
  EXPECT_TRUE(store_->live_sessions()->empty());
}

TEST_F(SqliteStoreTest, removing_a_sandbox_takes_everything_of_it_along) {
  ASSERT_TRUE(add(sandbox("web")));
  ASSERT_TRUE(store_->put_command({.id = "cmd_1",
                                   .session = "sbx_web",
                                   .name = "ls",
                                   .args = {"-l", "\xc3\xa9"},
                                   .cwd = "/",
                                   .started_at = 1,
                                   .exit_code = {},
                                   .duration = {}}));
  EXPECT_EQ(store_->command("sbx_web", "cmd_1")->args,
            (std::vector<std::string>{"-l", "\xc3\xa9"}));
  ASSERT_TRUE(store_->remove_sandbox({"team", "project", "web"}));
  EXPECT_EQ(store_->session("sbx_web").error().code, Code::not_found);
  EXPECT_EQ(store_->command("sbx_web", "cmd_1").error().code, Code::not_found);
  EXPECT_TRUE(add(sandbox("web")));  // the name is free again
}

TEST_F(SqliteStoreTest, a_command_is_updated_with_its_end) {
  ASSERT_TRUE(add(sandbox("web")));
  CommandRecord command{.id = "cmd_1",
                        .session = "sbx_web",
                        .name = "ls",
                        .args = {},
                        .cwd = "/",
                        .started_at = 1,
                        .exit_code = {},
                        .duration = {}};
  ASSERT_TRUE(store_->put_command(command));
  EXPECT_FALSE(store_->command("sbx_web", "cmd_1")->exit_code);
  command.exit_code = 3;
  command.duration = 12;
  ASSERT_TRUE(store_->put_command(command));
  EXPECT_EQ(store_->command("sbx_web", "cmd_1")->exit_code, 3);
  EXPECT_EQ(store_->commands("sbx_web")->size(), 1U);
}

TEST_F(SqliteStoreTest, a_file_of_a_newer_program_is_refused) {
  store_.reset();
  {
    auto database = Database::open(path());
    ASSERT_TRUE(database);
    ASSERT_TRUE(database->run("PRAGMA user_version = 999"));
  }
  const auto opened = open_sqlite_store(path(), sealer_);
  ASSERT_FALSE(opened);
  EXPECT_NE(opened.error().message.find("newer"), std::string::npos);
}

}  // namespace
}  // namespace sallyport::store
