// SPDX-License-Identifier: Apache-2.0
// The supervisor's side of one sandbox's firewall: its router, its worker, and the one policy that
// both enforce.
//
// Theory of operation. The address half of a policy lives in nftables, the name half in the worker.
// An update is
//   worker prepare (compiled; new flows wait) -> nftables, one transaction -> store -> worker
//   commit (old flows judged)
// and whatever fails before the store took it goes back to the old policy in both; whatever fails
// after it goes forward: the worker is replaced by one that starts with the new policy. So after a
// crash at any point, putting the stored policy into both again is right, which is what
// adopt() does.
//
// A worker that dies takes its sockets along: intercepted traffic then meets nobody and is refused
// by nftables, and revive() brings a new worker with the same policy and version. One that
// answers nothing for kHeartbeatLimit is killed. Nothing here ever opens the router by failing.
//
// Blocking calls; the owner makes them one at a time, on the sandbox's Serial.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "sandbox/boundary.h"
#include "sandbox/loop.h"
#include "sandbox/network.h"
#include "sandbox/worker.h"

namespace sallyport::sandbox {

struct GatehouseSpec {
  std::string id;    // session id
  std::string name;  // of the sandbox, for the egress log
  unsigned slot = 0;
  unsigned worker_uid = 0;
  std::string run_dir;    // this sandbox's
  std::string state_dir;  // this sandbox's
  std::vector<Address> resolvers;
  BoundaryLists boundary;
  std::uint64_t log_bytes = 64U << 20;
  unsigned connections = 4096;
};

struct TrafficCounts {
  std::int64_t up = 0;
  std::int64_t down = 0;
};
struct UpdateCounts {
  std::uint64_t kept = 0;
  std::uint64_t cut = 0;
};

class Gatehouse : public std::enable_shared_from_this<Gatehouse> {
 public:
  // What it asks of its owner, from any thread: run revive() or rotate_log() soon, on the Serial,
  // after this delay.
  struct Requests {
    std::function<void(std::chrono::milliseconds)> revive;
    std::function<void()> rotate_log;
  };

  static constexpr std::chrono::milliseconds kAnswerLimit{10'000};
  static constexpr std::chrono::milliseconds kLastLinesLimit{1'000};
  static constexpr std::chrono::milliseconds kHeartbeatEvery{2'000};
  static constexpr std::chrono::milliseconds kHeartbeatLimit{4'000};

  Gatehouse(Loop& loop, Network& network, WorkerLauncher& launcher, GatehouseSpec spec,
            Requests requests);

  // Router, worker and policy, in that order: when this returns the guest's link may be attached
  // (FW-008, R-096).
  [[nodiscard]] Result<> open(policy::PolicyPtr policy, std::uint64_t version);
  // The same for a sandbox that a former daemon left: takes its worker if that still is one, else
  // starts a new one.
  [[nodiscard]] Result<> adopt(ProcessId worker, policy::PolicyPtr policy, std::uint64_t version);
  // Replaces the policy. `persist` stores it; when that fails the old one stays. Code::invalid: the
  // worker refused it.
  [[nodiscard]] Result<UpdateCounts> update(policy::PolicyPtr policy, std::uint64_t version,
                                            const std::function<Result<>()>& persist);
  // Brings a worker back if there is none. Failing asks for another try later by itself.
  [[nodiscard]] Result<> revive();
  [[nodiscard]] Result<> rotate_log();
  // Worker and router end. Idempotent.
  [[nodiscard]] Result<> close();
  // True when neither the old nor the new policy could be put in force in the kernel: end the
  // sandbox.
  [[nodiscard]] bool broken() const { return broken_; }

  [[nodiscard]] ProcessId worker_process() const;
  [[nodiscard]] TrafficCounts traffic() const;
  [[nodiscard]] std::uint64_t version() const { return version_; }
  [[nodiscard]] const policy::PolicyPtr& policy() const { return policy_; }
  [[nodiscard]] const GatehouseSpec& spec() const { return spec_; }

 private:
  [[nodiscard]] host::SandboxNetwork network_id() const { return {spec_.id, spec_.slot}; }
  [[nodiscard]] WorkerSpec worker_spec() const;
  [[nodiscard]] WorkerEvents worker_events(std::uint64_t generation);
  [[nodiscard]] Result<> start_worker();
  [[nodiscard]] Result<> configure(Worker& worker);
  [[nodiscard]] Result<> prepare(Worker& worker, const policy::Policy& policy,
                                 std::uint64_t version);
  [[nodiscard]] Result<UpdateCounts> commit(Worker& worker, std::uint64_t version);
  [[nodiscard]] Result<> enforce();  // policy_ into the kernel and the worker
  void restore_kernel();
  void end_flows();
  void take_worker(std::shared_ptr<Worker> worker);
  void drop_worker();  // KILLs it
  void worker_exited(std::uint64_t generation);
  void schedule_heartbeat(std::uint64_t generation);
  void heartbeat(std::uint64_t generation);
  [[nodiscard]] std::chrono::milliseconds next_backoff();
  void note_stats(const json::object& stats);

  Loop& loop_;
  Network& network_;
  WorkerLauncher& launcher_;
  const GatehouseSpec spec_;
  const Requests requests_;
  policy::PolicyPtr policy_;
  std::uint64_t version_ = 0;
  bool broken_ = false;
  std::atomic<bool> closing_ = false;

  mutable std::mutex mutex_;  // guards what follows: the loop and the Serial both use it
  std::shared_ptr<Worker> worker_;
  std::uint64_t generation_ = 0;  // of the worker; events of an older one are stale
  std::chrono::steady_clock::time_point taken_at_;
  std::chrono::milliseconds backoff_{0};  // grows while workers fail or die young
  TrafficCounts before_;                  // by workers that are gone
  TrafficCounts now_;
  Loop::Handle heartbeat_;
};

}  // namespace sallyport::sandbox
