// SPDX-License-Identifier: Apache-2.0
// Everything that happens to sandboxes: create, stop, delete, policy updates, timeouts, deaths, and
// coming back after a restart. It owns the live ones and joins store, network, worker, driver and
// agent, each through its door.
//
// Theory of operation. The store is told first and the kernel second on the way up, and the other
// way round on the way down: whatever exists in the kernel has a row (or is found by the sweep as
// having none). Operations on one sandbox run one at a time on its Serial; different sandboxes run
// at the same time. Answers come on a pool thread or the loop. The sandbox is running when its
// agent answered, not earlier.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "policy/policy.h"
#include "sandbox/agent.h"
#include "sandbox/boundary.h"
#include "sandbox/commands.h"
#include "sandbox/driver.h"
#include "sandbox/images.h"
#include "sandbox/live.h"
#include "sandbox/loop.h"
#include "sandbox/network.h"
#include "sandbox/slots.h"
#include "sandbox/state.h"
#include "sandbox/worker.h"
#include "store/store.h"

namespace sallyport::sandbox {

struct SupervisorSettings {
  std::string state_dir;
  std::string run_dir;
  std::vector<Address> resolvers;
  NodeBoundary boundary;
  unsigned worker_uid_first = 1'900'000'000;
  std::uint64_t disk_bytes = 32ULL << 30;
  std::uint64_t egress_log_bytes = 64U << 20;
  unsigned connections = 4096;
  store::Millis longest_timeout = 24LL * 3600 * 1000;
  std::chrono::milliseconds agent_limit{30'000};
  std::chrono::milliseconds stop_grace{5'000};
  std::size_t max_sandboxes = 10'000;
  store::Millis keep_stopped =
      14LL * 24 * 3600 * 1000;  // then a sandbox that cannot resume is forgotten
};

// The outside world, all borrowed.
struct Doors {
  Loop& loop;
  store::Store& store;
  Network& network;
  WorkerLauncher& workers;
  Driver& driver;
  Images& images;
  AgentConnector connect_agent;
};

struct CreateRequest {
  store::SandboxKey key;  // name may be empty: generated
  std::string image;      // empty: the default
  unsigned vcpus = 2;
  store::Millis timeout = 300'000;
  bool persistent = true;
  std::string region = "iad1";
  std::optional<std::string> network_id;
  std::map<std::string, std::string> env;
  std::map<std::string, std::string> tags;
  policy::PolicyPtr policy;  // null: allow-all (FW-003)
  json::object extra;
};

// A sandbox as it is reported: record, current session, policy in the response grammar.
struct View {
  store::SandboxRecord sandbox;
  store::SessionRecord session;
  json::value policy;
};
struct PolicyUpdate {
  View view;
  std::uint64_t version = 0;
  UpdateCounts counts;
};
struct Details {  // what only an operator is told
  std::string isolation;
  unsigned slot = 0;
  int init_pid = 0;
  int worker_pid = 0;
  BoundaryLists boundary;
  std::uint64_t policy_version = 0;
  std::string state_dir;
};

class Supervisor {
 public:
  template <class T>
  using Done = std::function<void(Result<T>)>;

  Supervisor(Doors doors, SupervisorSettings settings);
  Supervisor(const Supervisor&) = delete;
  Supervisor& operator=(const Supervisor&) = delete;

  // Before anything else, on a pool or main thread while the loop runs: takes over or ends what a
  // former daemon left and removes what nobody owns. An error means that something may still be
  // open: do not serve.
  [[nodiscard]] Result<> recover();

  void create(CreateRequest request, Done<View> done);
  // Blocks (in the sense of `done`) until it is gone. Succeeds on a session that has ended already.
  void stop(const std::string& session, Done<View> done);
  // Stops it, forgets it and its files; answers with its last state.
  void remove(const store::SandboxKey& key, Done<View> done);
  // Code::conflict: the session is not running.
  void set_policy(const std::string& session, policy::PolicyPtr policy, Done<PolicyUpdate> done);
  void extend(const std::string& session, store::Millis by, Done<View> done);
  // The agent of a running session, to start commands with; Code::conflict otherwise. Any thread.
  [[nodiscard]] Result<std::shared_ptr<Agent>> agent(const std::string& session) const;
  void details(const std::string& session, Done<Details> done);
  void stop_all(std::function<void()> done);
  // Forgets what stopped longer than keep_stopped ago, now and then again every hour.
  void forget_old();

  // Blocking reads.
  [[nodiscard]] Result<View> view(const store::SandboxKey& key);
  [[nodiscard]] Result<View> view_of_session(const std::string& session);

  [[nodiscard]] Commands& commands() { return commands_; }  // on the loop only
  [[nodiscard]] store::Store& store() { return doors_.store; }
  [[nodiscard]] Images& images() { return doors_.images; }
  [[nodiscard]] Loop& loop() { return doors_.loop; }
  [[nodiscard]] const SupervisorSettings& settings() const { return settings_; }
  [[nodiscard]] std::size_t live_count() const;

 private:
  using LivePtr = std::shared_ptr<Live>;

  [[nodiscard]] LivePtr find_live(const std::string& session) const;
  [[nodiscard]] Result<LivePtr> make_live(store::SessionRecord record,
                                          const store::SandboxRecord& sandbox);
  void forget_live(const LivePtr& live);
  [[nodiscard]] std::string run_dir_of(const std::string& id) const;
  [[nodiscard]] std::string state_dir_of(const std::string& id) const;

  // On the Serial of `live`.
  [[nodiscard]] Result<> bring_up(const LivePtr& live, policy::PolicyPtr policy,
                                  std::uint64_t version);
  [[nodiscard]] Result<> wait_for_agent(const LivePtr& live);
  void watch(const LivePtr& live);  // PID 1 and the timeout
  [[nodiscard]] Result<> halt(const LivePtr& live, Event why, std::string failure);
  [[nodiscard]] Result<> tear_down(const LivePtr& live);
  void retry_tear_down(const LivePtr& live);
  [[nodiscard]] Result<> move(const LivePtr& live, Event event);  // state table, times and store
  void note_processes(const LivePtr& live);
  [[nodiscard]] Result<> take_over(const LivePtr& live);
  [[nodiscard]] Result<> sweep(const std::set<std::string>& kept);

  Doors doors_;
  SupervisorSettings settings_;
  Slots slots_;
  Commands commands_;
  Loop::Handle forgetting_;

  mutable std::mutex mutex_;
  std::map<std::string, LivePtr> live_;
};

}  // namespace sallyport::sandbox
