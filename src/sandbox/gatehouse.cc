// SPDX-License-Identifier: Apache-2.0
#include "sandbox/gatehouse.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"
#include "base/log.h"
#include "policy/policy_json.h"
#include "sandbox/egress_log.h"

namespace sallyport::sandbox {
namespace {

constexpr std::chrono::milliseconds kFirstBackoff{100};
constexpr std::chrono::milliseconds kLongestBackoff{5'000};
// A worker that lived this long did not die of what it was born with: the next one comes at once.
constexpr std::chrono::seconds kGrownUp{30};

std::int64_t number(const json::object& object, std::string_view key) {
  const json::value* value = object.if_contains(key);
  if (value == nullptr) return 0;
  if (value->is_int64()) return std::max<std::int64_t>(0, value->get_int64());
  if (value->is_uint64())
    return static_cast<std::int64_t>(std::min<std::uint64_t>(value->get_uint64(), INT64_MAX));
  return 0;
}

}  // namespace

Gatehouse::Gatehouse(Loop& loop, Network& network, WorkerLauncher& launcher, GatehouseSpec spec,
                     Requests requests)
    : loop_(loop),
      network_(network),
      launcher_(launcher),
      spec_(std::move(spec)),
      requests_(std::move(requests)) {}

Result<> Gatehouse::open(policy::PolicyPtr policy, std::uint64_t version) {
  policy_ = std::move(policy);
  version_ = version;
  if (Result<> done = network_.create_router(network_id()); !done)
    return context("network", done.error());
  if (Result<> done = start_worker(); !done) return done;
  return enforce();
}

Result<> Gatehouse::adopt(ProcessId process, policy::PolicyPtr policy, std::uint64_t version) {
  policy_ = std::move(policy);
  version_ = version;
  const std::uint64_t generation = ++generation_;
  auto worker = launcher_.adopt(worker_spec(), process, worker_events(generation));
  if (worker) {
    take_worker(*worker);
    // The configuration may have changed while nobody was here, and an update may have been under
    // way.
    if (configure(**worker) && enforce()) return {};
    log::warn("firewall worker does not take the policy again, replacing it",
              {{"sandbox", spec_.id}});
  }
  drop_worker();
  if (Result<> done = launcher_.end(worker_spec()); !done) return done;
  return revive();
}

Result<UpdateCounts> Gatehouse::update(policy::PolicyPtr policy, std::uint64_t version,
                                       const std::function<Result<>()>& persist) {
  if (Result<> done = revive(); !done) return std::unexpected(done.error());
  std::shared_ptr<Worker> worker;
  {
    const std::lock_guard lock(mutex_);
    worker = worker_;
  }
  if (!worker) return fail(Code::unavailable, "the firewall worker just ended; try again");
  if (Result<> done = prepare(*worker, *policy, version); !done) {
    if (done.error().code != Code::invalid)
      worker->kill();  // in an unknown state: revive() starts from the old policy
    return std::unexpected(done.error());
  }
  const auto back = [&](Error error) -> Result<UpdateCounts> {
    restore_kernel();
    const auto aborted =
        ask_and_wait(*worker, {{"op", "abort"}, {"version", version}}, kAnswerLimit);
    if (!aborted) worker->kill();
    return std::unexpected(std::move(error));
  };
  const Result<host::Applied> kernel =
      network_.apply(network_id(), address_policy(*policy, spec_.boundary));
  if (!kernel) return back({kernel.error().code, "network: " + kernel.error().message});
  if (Result<> done = persist(); !done) return back(done.error());

  policy_ = std::move(policy);
  version_ = version;
  auto counts = commit(*worker, version);
  if (!counts) {
    // Stored and in the kernel, so it must come into force: with a new worker, which has no old
    // flows.
    log::warn("firewall worker did not commit, replacing it",
              {{"sandbox", spec_.id}, {"error", counts.error().message}});
    drop_worker();
    if (Result<> done = revive(); !done) return std::unexpected(done.error());
    counts = UpdateCounts{};
  }
  counts->kept += kernel->kept;
  counts->cut += kernel->cut;
  return counts;
}

Result<> Gatehouse::revive() {
  if (closing_) return fail(Code::unavailable, "the sandbox is stopping");
  {
    const std::lock_guard lock(mutex_);
    if (worker_) return {};
  }
  CHECK(policy_ != nullptr);
  Result<> done = start_worker();
  if (done) done = enforce();
  if (done) return {};
  log::error("no firewall worker, the sandbox stays without network",
             {{"sandbox", spec_.id}, {"error", done.error().message}});
  drop_worker();
  std::chrono::milliseconds delay;
  {
    const std::lock_guard lock(mutex_);
    delay = next_backoff();
  }
  requests_.revive(delay);
  return done;
}

Result<> Gatehouse::rotate_log() {
  std::shared_ptr<Worker> worker;
  {
    const std::lock_guard lock(mutex_);
    worker = worker_;
  }
  if (!worker) return {};  // the next one opens the file by itself
  // Whether it is full is seen here, not believed: a worker that was taken over could rotate away
  // what it did before.
  const auto size = egress_log_size(spec_.state_dir);
  if (!size) return std::unexpected(size.error());
  if (*size < spec_.log_bytes) return {};
  auto log = rotate_egress_log(spec_.state_dir);
  if (!log) return std::unexpected(log.error());
  auto answer = ask_and_wait(*worker, {{"op", "rotate_log"}}, kAnswerLimit, *std::move(log));
  if (!answer) return std::unexpected(answer.error());
  return {};
}

// Every connection leaves its line in the egress log, so the open ones are ended before the worker
// is: first those of the kernel, whose end it hears of, then its own. As far as it goes: a sandbox
// is stopped whatever becomes of this.
void Gatehouse::end_flows() {
  std::shared_ptr<Worker> worker;
  {
    const std::lock_guard lock(mutex_);
    worker = worker_;
  }
  if (!worker) return;
  (void)network_.apply(network_id(), address_policy(*policy::deny_all(), spec_.boundary));
  if (!ask_and_wait(*worker, {{"op", "stop"}}, kLastLinesLimit)) return;
  const auto stats = ask_and_wait(*worker, {{"op", "stats"}}, kLastLinesLimit);
  if (stats) note_stats(*stats);
}

Result<> Gatehouse::close() {
  if (!closing_.exchange(true)) end_flows();
  drop_worker();
  Result<> strays = launcher_.end(worker_spec());
  Result<> network = network_.destroy(network_id());
  if (!network) return context("network", network.error());
  return strays;
}

ProcessId Gatehouse::worker_process() const {
  const std::lock_guard lock(mutex_);
  return worker_ ? worker_->process() : ProcessId{};
}

TrafficCounts Gatehouse::traffic() const {
  const std::lock_guard lock(mutex_);
  return {before_.up + now_.up, before_.down + now_.down};
}

WorkerSpec Gatehouse::worker_spec() const {
  return {spec_.id, spec_.worker_uid, spec_.run_dir + "/worker.sock", spec_.log_bytes};
}

WorkerEvents Gatehouse::worker_events(std::uint64_t generation) {
  return {.exited =
              [weak = weak_from_this(), generation] {
                if (auto self = weak.lock()) self->worker_exited(generation);
              },
          .log_full =
              [weak = weak_from_this()] {
                if (auto self = weak.lock()) self->requests_.rotate_log();
              }};
}

Result<> Gatehouse::start_worker() {
  auto sockets = network_.open_worker_sockets(network_id());
  if (!sockets) return context("network", sockets.error());
  auto log = open_egress_log(spec_.state_dir);
  if (!log) return std::unexpected(log.error());
  std::uint64_t generation = 0;
  {
    const std::lock_guard lock(mutex_);
    generation = ++generation_;
  }
  auto worker = launcher_.launch(worker_spec(), *std::move(sockets), *std::move(log),
                                 worker_events(generation));
  if (!worker) return context("firewall worker", worker.error());
  take_worker(*worker);
  return configure(**worker);
}

Result<> Gatehouse::configure(Worker& worker) {
  const host::SandboxAddresses addresses = network_.addresses(spec_.slot);
  json::array resolvers;
  for (const Address& resolver : spec_.resolvers) resolvers.emplace_back(resolver.to_string());
  const auto answer = ask_and_wait(
      worker,
      {{"op", "configure"},
       {"sandbox", spec_.id},
       {"name", spec_.name},
       {"boundary", spec_.boundary.to_json()},
       {"resolvers", std::move(resolvers)},
       {"guest", json::array{addresses.guest4.to_string(), addresses.guest6.to_string()}},
       {"limits", {{"connections", spec_.connections}, {"log_bytes", spec_.log_bytes}}}},
      kAnswerLimit);
  if (!answer) return context("configure", answer.error());
  return {};
}

Result<> Gatehouse::prepare(Worker& worker, const policy::Policy& policy, std::uint64_t version) {
  const auto answer = ask_and_wait(
      worker, {{"op", "prepare"}, {"version", version}, {"policy", policy::request_json(policy)}},
      kAnswerLimit);
  if (!answer) return std::unexpected(answer.error());
  return {};
}

Result<UpdateCounts> Gatehouse::commit(Worker& worker, std::uint64_t version) {
  const auto answer = ask_and_wait(worker, {{"op", "commit"}, {"version", version}}, kAnswerLimit);
  if (!answer) return std::unexpected(answer.error());
  return UpdateCounts{static_cast<std::uint64_t>(number(*answer, "kept")),
                      static_cast<std::uint64_t>(number(*answer, "cut"))};
}

Result<> Gatehouse::enforce() {
  std::shared_ptr<Worker> worker;
  {
    const std::lock_guard lock(mutex_);
    worker = worker_;
  }
  if (!worker) return fail(Code::unavailable, "the firewall worker ended");
  if (Result<> done = prepare(*worker, *policy_, version_); !done) return done;
  const Result<host::Applied> kernel =
      network_.apply(network_id(), address_policy(*policy_, spec_.boundary));
  if (!kernel) return context("network", kernel.error());
  const auto counts = commit(*worker, version_);
  if (!counts) return std::unexpected(counts.error());
  return {};
}

void Gatehouse::restore_kernel() {
  const Result<host::Applied> old =
      network_.apply(network_id(), address_policy(*policy_, spec_.boundary));
  if (old) return;
  broken_ = true;
  log::error("the old policy could not be put back into the kernel, ending the sandbox",
             {{"sandbox", spec_.id}, {"error", old.error().message}});
}

void Gatehouse::take_worker(std::shared_ptr<Worker> worker) {
  std::uint64_t generation = 0;
  {
    const std::lock_guard lock(mutex_);
    worker_ = std::move(worker);
    taken_at_ = std::chrono::steady_clock::now();
    generation = generation_;
  }
  schedule_heartbeat(generation);
}

void Gatehouse::drop_worker() {
  std::shared_ptr<Worker> worker;
  {
    const std::lock_guard lock(mutex_);
    worker = std::move(worker_);
    ++generation_;
    heartbeat_.reset();
    before_ = {before_.up + now_.up, before_.down + now_.down};
    now_ = {};
  }
  if (worker) worker->kill();
}

std::chrono::milliseconds Gatehouse::next_backoff() {
  backoff_ = std::clamp(backoff_ * 2, kFirstBackoff, kLongestBackoff);
  return backoff_;
}

void Gatehouse::worker_exited(std::uint64_t generation) {
  std::chrono::milliseconds delay{0};
  {
    const std::lock_guard lock(mutex_);
    if (generation != generation_) return;
    worker_.reset();
    ++generation_;
    heartbeat_.reset();
    before_ = {before_.up + now_.up, before_.down + now_.down};
    now_ = {};
    // The first death is answered at once; one that dies young again and again waits longer each
    // time.
    if (std::chrono::steady_clock::now() - taken_at_ >= kGrownUp) backoff_ = {};
    delay = backoff_;
    (void)next_backoff();
  }
  if (closing_) return;
  log::warn("firewall worker ended, the sandbox has no network until the next one",
            {{"sandbox", spec_.id}});
  requests_.revive(delay);
}

void Gatehouse::schedule_heartbeat(std::uint64_t generation) {
  auto timer = loop_.after(kHeartbeatEvery, [weak = weak_from_this(), generation] {
    if (auto self = weak.lock()) self->heartbeat(generation);
  });
  const std::lock_guard lock(mutex_);
  if (generation == generation_) heartbeat_ = std::move(timer);
}

void Gatehouse::heartbeat(std::uint64_t generation) {
  std::shared_ptr<Worker> worker;
  {
    const std::lock_guard lock(mutex_);
    if (generation != generation_ || !worker_) return;
    worker = worker_;
  }
  worker->ask({{"op", "stats"}}, Fd(), kHeartbeatLimit,
              [weak = weak_from_this(), worker, generation](Result<json::object> stats) {
                auto self = weak.lock();
                if (!self) return;
                if (!stats) {
                  log::warn("firewall worker hangs, killing it",
                            {{"sandbox", self->spec_.id}, {"error", stats.error().message}});
                  worker->kill();  // its end brings the next one
                  return;
                }
                self->note_stats(*stats);
                self->schedule_heartbeat(generation);
              });
}

void Gatehouse::note_stats(const json::object& stats) {
  const std::lock_guard lock(mutex_);
  now_ = {number(stats, "bytes_up"), number(stats, "bytes_down")};
}

}  // namespace sallyport::sandbox
