// SPDX-License-Identifier: Apache-2.0
// What a daemon does before it serves: the former one may have been killed at any instruction.
// Every session that the store does not call ended is taken over if it is whole, else ended; then
// everything that the kernel still shows and no live session owns is removed. In that order, so
// that the sweep cannot hit what was taken over.
#include <fmt/format.h>

#include <algorithm>
#include <future>

#include "base/log.h"
#include "policy/policy_json.h"
#include "sandbox/directories.h"
#include "sandbox/names.h"
#include "sandbox/supervisor.h"

namespace sallyport::sandbox {

Result<> Supervisor::recover() {
  if (Result<> made = make_directory(settings_.run_dir + "/sandboxes"); !made) return made;
  if (Result<> made = make_directory(settings_.state_dir + "/sandboxes"); !made) return made;
  if (Result<> ready = doors_.network.setup_node(); !ready)
    return context("network", ready.error());
  const auto sessions = doors_.store.live_sessions();
  if (!sessions) return std::unexpected(sessions.error());
  std::vector<std::future<void>> waiting;
  for (const store::SessionRecord& session : *sessions) {
    auto sandbox = doors_.store.sandbox(session.sandbox);
    if (!sandbox) return std::unexpected(sandbox.error());
    if (!slots_.take_exactly(session.slot)) {
      log::warn("two sessions claim one slot", {{"sandbox", session.id}, {"slot", session.slot}});
    }
    auto live = make_live(session, *sandbox);
    if (!live) {
      // Its network was taken out of the configuration: without it, it can only be ended.
      sandbox->network_id.reset();
      live = make_live(session, *sandbox);
      if (!live) return std::unexpected(live.error());
      (*live)->record.status = to_string(State::stopping);
    }
    auto promise = std::make_shared<std::promise<void>>();
    waiting.push_back(promise->get_future());
    (*live)->serial->post([this, live = *live, promise] {
      if (Result<> taken = take_over(live); !taken) {
        log::error("sandbox of the former daemon neither taken over nor ended, trying again",
                   {{"sandbox", live->id()}, {"error", taken.error().message}});
        retry_tear_down(live);
      }
      promise->set_value();
    });
  }
  for (auto& each : waiting) each.wait();
  std::set<std::string> kept;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [id, live] : live_) kept.insert(id);
  }
  return sweep(kept);
}

Result<> Supervisor::take_over(const LivePtr& live) {
  const State state = state_from(live->record.status).value_or(State::running);
  std::string why = "the daemon was restarted while it was " + std::string(to_string(state));
  if (state == State::running) {
    live->init = {live->record.init_pid, live->record.init_start};
    const auto resume = [&]() -> Result<> {
      auto init = open_process(live->init);
      if (!init) return context("first process", init.error());
      if (!doors_.driver.alive(live->id(), live->init.pid))
        return fail(Code::not_found, "the driver calls it dead");
      live->init_fd = *std::move(init);
      auto stored = doors_.store.policy(live->record.sandbox);
      if (!stored) return std::unexpected(stored.error());
      auto policy = policy::parse_policy(stored->request.reveal());
      if (!policy) return context("stored policy", policy.error());
      const ProcessId worker{live->record.worker_pid, live->record.worker_start};
      if (Result<> done = live->gatehouse->adopt(worker, *policy, stored->version); !done)
        return done;
      return wait_for_agent(live);
    };
    const Result<> resumed = resume();
    if (resumed) {
      note_processes(live);
      watch(live);
      log::info("sandbox taken over",
                {{"sandbox", live->id()}, {"policy", live->gatehouse->version()}});
      return {};
    }
    why = "the daemon was restarted and could not take it over: " + resumed.error().message;
  }
  log::warn("ending a sandbox of the former daemon", {{"sandbox", live->id()}, {"reason", why}});
  if (Result<> down = tear_down(live); !down) return down;
  live->record.failure = why;
  if (state == State::pending) {
    // Its create was never answered: the name is free again.
    if (Result<> removed = doors_.store.remove_sandbox(live->record.sandbox); !removed)
      return removed;
    remove_directory(live->driver.state_dir);
  } else if (Result<> moved = move(live, Event::abandoned); !moved) {
    return moved;
  }
  forget_live(live);
  return {};
}

Result<> Supervisor::sweep(const std::set<std::string>& kept) {
  std::set<std::string> orphans;
  const auto in_network = doors_.network.leftovers();
  if (!in_network) return context("network", in_network.error());
  const auto in_driver = doors_.driver.leftovers();
  if (!in_driver) return context("driver", in_driver.error());
  orphans.insert(in_network->begin(), in_network->end());
  orphans.insert(in_driver->begin(), in_driver->end());
  for (std::string& name : names_in(settings_.run_dir + "/sandboxes"))
    orphans.insert(std::move(name));
  for (const std::string& id : kept) orphans.erase(id);

  // An orphan's slot is not known. The sandbox's namespace takes its links along; the slot given
  // here must only not be that of a living one.
  const auto slot = slots_.take();
  for (const std::string& id : orphans) {
    log::warn("removing what is left of a sandbox that nobody knows", {{"sandbox", id}});
    DriverSpec spec;
    spec.id = id;
    spec.run_dir = run_dir_of(id);
    spec.state_dir = state_dir_of(id);
    spec.slot = slot.value_or(0);
    if (Result<> done = doors_.driver.destroy(spec); !done)
      return context("driver: " + id, done.error());
    if (Result<> done = doors_.workers.end({id, 0, spec.run_dir + "/worker.sock", 0}); !done) {
      return context("firewall worker: " + id, done.error());
    }
    if (Result<> done = doors_.network.destroy({id, spec.slot}); !done)
      return context("network: " + id, done.error());
    remove_directory(spec.run_dir);
  }
  if (slot) slots_.release(*slot);

  std::set<unsigned> kept_uids;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [id, live] : live_) kept_uids.insert(live->gatehouse->spec().worker_uid);
  }
  if (Result<> done = doors_.workers.kill_strays(kept_uids); !done) return done;
  for (const std::string& id : names_in(settings_.state_dir + "/sandboxes")) {
    const auto known = doors_.store.session(id);
    if (!known && known.error().code == Code::not_found) remove_directory(state_dir_of(id));
  }
  return {};
}

}  // namespace sallyport::sandbox
