// SPDX-License-Identifier: Apache-2.0
// A supervisor on a fake kernel, with verbs that block. Two of them on the same directory, one
// after the other, are a daemon and its restart.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <future>
#include <memory>
#include <string>
#include <thread>

#include "base/check.h"
#include "policy/policy_json.h"
#include "sandbox/supervisor.h"
#include "store/sealer.h"
#include "store/sqlite_store.h"
#include "support/fake_node.h"

namespace sallyport::test {

// A directory that goes with the test.
class TempDirectory {
 public:
  TempDirectory() {
    char pattern[] = "/tmp/sallyport-test-XXXXXX";
    CHECK(::mkdtemp(pattern) != nullptr);
    path_ = pattern;
  }
  TempDirectory(const TempDirectory&) = delete;
  TempDirectory& operator=(const TempDirectory&) = delete;
  ~TempDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
};

class TestNode {
 public:
  explicit TestNode(const std::string& directory)
      : directory_(directory),
        kernel(directory + "/kernel"),
        loop(4),
        network(kernel),
        workers(kernel, loop),
        driver(kernel) {
    for (const char* name : {"/state", "/run", "/state/sandboxes", "/run/sandboxes"})
      std::filesystem::create_directories(directory + name);
    auto opened = store::open_sqlite_store(directory + "/state/db", *sealer);
    CHECK(opened.has_value());
    store = *std::move(opened);
    sandbox::SupervisorSettings settings;
    settings.state_dir = directory + "/state";
    settings.run_dir = directory + "/run";
    settings.boundary.networks["corp"] = {*Cidr::parse("10.20.0.0/16")};
    settings.longest_timeout = 3'600'000;
    supervisor = std::make_unique<sandbox::Supervisor>(
        sandbox::Doors{loop, *store, network, workers, driver, images, fake_agents(kernel, loop)},
        settings);
    thread_ = std::thread([this] { loop.run(); });
  }
  TestNode(const TestNode&) = delete;
  TestNode& operator=(const TestNode&) = delete;
  ~TestNode() {
    loop.join_pool();  // work that is under way waits for the loop
    loop.stop();
    thread_.join();
  }

  template <class T>
  using Done = std::function<void(Result<T>)>;
  template <class T>
  static Result<T> wait(const std::function<void(Done<T>)>& start) {
    auto promise = std::make_shared<std::promise<Result<T>>>();
    auto answer = promise->get_future();
    start([promise](Result<T> result) { promise->set_value(std::move(result)); });
    return answer.get();
  }

  Result<sandbox::View> create(const std::string& name,
                               const std::string& policy = R"({"mode":"allow-all"})") {
    sandbox::CreateRequest request;
    request.key = {"team", "project", name};
    auto parsed = policy::parse_policy(policy);
    CHECK(parsed.has_value());
    request.policy = *parsed;
    return create(std::move(request));
  }
  Result<sandbox::View> create(sandbox::CreateRequest request) {
    return wait<sandbox::View>([&](auto done) { supervisor->create(std::move(request), done); });
  }
  Result<sandbox::View> stop(const std::string& session) {
    return wait<sandbox::View>([&](auto done) { supervisor->stop(session, done); });
  }
  Result<sandbox::View> remove(const std::string& name) {
    return wait<sandbox::View>(
        [&](auto done) { supervisor->remove({"team", "project", name}, done); });
  }
  Result<sandbox::PolicyUpdate> set_policy(const std::string& session, const std::string& policy) {
    auto parsed = policy::parse_policy(policy);
    CHECK(parsed.has_value());
    return wait<sandbox::PolicyUpdate>(
        [&](auto done) { supervisor->set_policy(session, *parsed, done); });
  }
  Result<sandbox::View> view(const std::string& name) {
    return supervisor->view({"team", "project", name});
  }
  // Runs `question` again and again, a loop turn between, until it holds; CTest's limit ends a test
  // that never gets there.
  void until(const std::function<bool()>& question) {
    while (!question()) std::this_thread::yield();
  }

 private:
  std::string directory_;

 public:
  FakeKernel kernel;
  sandbox::Loop loop;
  FakeNetwork network;
  FakeWorkers workers;
  FakeDriver driver;
  FakeImages images;
  std::unique_ptr<store::Sealer> sealer = store::plain_sealer();
  std::unique_ptr<store::Store> store;
  std::unique_ptr<sandbox::Supervisor> supervisor;

 private:
  std::thread thread_;
};

}  // namespace sallyport::test
