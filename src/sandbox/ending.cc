// SPDX-License-Identifier: Apache-2.0
// The supervisor's way down: stop, death, removal, and forgetting what stopped long ago. The kernel
// first and the store second, so that whatever exists in the kernel has a row. What cannot be torn
// down is tried again until it is, and keeps its slot meanwhile.
#include <algorithm>
#include <atomic>
#include <future>

#include "base/log.h"
#include "sandbox/directories.h"
#include "sandbox/names.h"
#include "sandbox/supervisor.h"

namespace sallyport::sandbox {
namespace {

constexpr std::chrono::milliseconds kTearDownRetry{10'000};

}  // namespace

Result<> Supervisor::tear_down(const LivePtr& live) {
  live->set_agent(nullptr);
  live->init_watch.reset();
  live->timeout.reset();
  if (Result<> done = doors_.driver.destroy(live->driver); !done)
    return context("driver", done.error());
  if (Result<> done = live->gatehouse->close(); !done) return done;
  const TrafficCounts traffic = live->gatehouse->traffic();
  live->record.egress = std::max(live->record.egress, traffic.up);
  live->record.ingress = std::max(live->record.ingress, traffic.down);
  remove_directory(live->driver.run_dir);
  keep_only_logs(live->driver.state_dir);
  return {};
}

Result<> Supervisor::halt(const LivePtr& live, Event why, std::string failure) {
  const auto state = state_from(live->record.status);
  if (!state || is_final(*state)) return {};
  if (why == Event::stop_requested && *state != State::stopping) {
    if (Result<> moved = move(live, Event::stop_requested); !moved) return moved;
  }
  if (const auto agent = live->agent(); agent && why == Event::stop_requested) {
    auto promise = std::make_shared<std::promise<void>>();
    agent->shutdown(settings_.stop_grace, [promise](const Result<>&) { promise->set_value(); });
    promise->get_future().wait();  // an agent that does not answer is ended below all the same
  }
  const Result<> down = tear_down(live);
  doors_.loop.post([this, id = live->id()] { commands_.session_ended(id); });
  live->record.failure = std::move(failure);
  if (!down) {
    log::error("sandbox not torn down, trying again",
               {{"sandbox", live->id()}, {"error", down.error().message}});
    retry_tear_down(live);
    return down;
  }
  const Result<> moved = move(live, why == Event::stop_requested ? Event::halted : why);
  forget_live(live);
  return moved;
}

void Supervisor::retry_tear_down(const LivePtr& live) {
  live->retry = doors_.loop.after(kTearDownRetry, [this, live] {
    live->serial->post([this, live] {
      if (!tear_down(live)) return retry_tear_down(live);
      const auto state = state_from(live->record.status);
      if (state && !is_final(*state))
        (void)move(live, *state == State::stopping ? Event::halted : Event::died);
      forget_live(live);
    });
  });
}

void Supervisor::stop(const std::string& session, Done<View> done) {
  const LivePtr live = find_live(session);
  if (!live)
    return doors_.loop.offload(
        [this, session, done = std::move(done)] { done(view_of_session(session)); });
  live->serial->post([this, live, done = std::move(done)] {
    if (Result<> halted = halt(live, Event::stop_requested, ""); !halted)
      return done(std::unexpected(halted.error()));
    done(view_of_session(live->id()));
  });
}

void Supervisor::remove(const store::SandboxKey& key, Done<View> done) {
  doors_.loop.offload([this, key, done = std::move(done)] {
    const auto known = view(key);
    if (!known) return done(std::unexpected(known.error()));
    stop(known->session.id, [this, key = known->sandbox.key, done](Result<View> stopped) {
      if (!stopped) return done(std::move(stopped));
      doors_.loop.offload([this, key, done, last = *std::move(stopped)] {
        const auto sessions =
            doors_.store.sessions({key.team, key.project, key.name}, {.limit = 50, .cursor = {}});
        if (Result<> removed = doors_.store.remove_sandbox(key); !removed)
          return done(std::unexpected(removed.error()));
        if (sessions) {
          for (const store::SessionRecord& session : sessions->items) {
            remove_directory(state_dir_of(session.id));
          }
        }
        done(last);
      });
    });
  });
}

void Supervisor::stop_all(std::function<void()> done) {
  std::vector<std::string> ids;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [id, live] : live_) ids.push_back(id);
  }
  if (ids.empty()) return done();
  auto left = std::make_shared<std::atomic<std::size_t>>(ids.size());
  for (const std::string& id : ids) {
    stop(id, [left, done](const Result<View>&) {
      if (left->fetch_sub(1) == 1) done();
    });
  }
}

void Supervisor::forget_old() {
  forgetting_ = doors_.loop.after(std::chrono::hours(1), [this] { forget_old(); });
  doors_.loop.offload([this] {
    const store::Millis before = now_ms() - settings_.keep_stopped;
    for (const State state : {State::stopped, State::failed, State::aborted}) {
      store::SandboxFilter filter;
      filter.status = to_string(state);
      filter.sort = store::SandboxFilter::Sort::status_updated_at;
      const auto oldest =
          doors_.store.sandboxes(filter, {.limit = 50, .cursor = {}, .descending = false});
      if (!oldest) return;
      for (const store::SandboxRecord& sandbox : oldest->items) {
        if (sandbox.status_updated_at > before) break;
        remove(sandbox.key, [name = sandbox.key.name](const Result<View>& gone) {
          if (gone) log::info("old stopped sandbox forgotten", {{"name", name}});
        });
      }
    }
  });
}

}  // namespace sallyport::sandbox
