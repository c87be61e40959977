// SPDX-License-Identifier: Apache-2.0
#include "sandbox/supervisor.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <future>

#include "base/check.h"
#include "base/log.h"
#include "policy/policy_json.h"
#include "sandbox/directories.h"
#include "sandbox/names.h"
#include "sandbox/steps.h"

namespace sallyport::sandbox {
namespace {

// The hostname inside: a label of the sandbox's name.
std::string hostname_of(std::string name) {
  std::ranges::replace(name, '_', '-');
  name.resize(std::min<std::size_t>(name.size(), 63));
  while (!name.empty() && name.back() == '-') name.pop_back();
  while (!name.empty() && name.front() == '-') name.erase(0, 1);
  return name.empty() ? "sandbox" : name;
}

}  // namespace

Supervisor::Supervisor(Doors doors, SupervisorSettings settings)
    : doors_(std::move(doors)),
      settings_(std::move(settings)),
      slots_(doors_.network.slot_count()),
      commands_(doors_.loop, doors_.store, settings_.state_dir) {}

std::string Supervisor::run_dir_of(const std::string& id) const {
  return settings_.run_dir + "/sandboxes/" + id;
}
std::string Supervisor::state_dir_of(const std::string& id) const {
  return settings_.state_dir + "/sandboxes/" + id;
}

Supervisor::LivePtr Supervisor::find_live(const std::string& session) const {
  const std::lock_guard lock(mutex_);
  const auto found = live_.find(session);
  return found == live_.end() ? nullptr : found->second;
}

std::size_t Supervisor::live_count() const {
  const std::lock_guard lock(mutex_);
  return live_.size();
}

void Supervisor::forget_live(const LivePtr& live) {
  live->set_agent(nullptr);
  live->init_watch.reset();
  live->timeout.reset();
  live->revive.reset();
  slots_.release(live->record.slot);
  const std::lock_guard lock(mutex_);
  live_.erase(live->id());
}

Result<Supervisor::LivePtr> Supervisor::make_live(store::SessionRecord record,
                                                  const store::SandboxRecord& sandbox) {
  auto boundary = boundary_for(settings_.boundary, sandbox.network_id);
  if (!boundary) return std::unexpected(boundary.error());
  auto live = std::make_shared<Live>(doors_.loop, std::move(record));
  const std::weak_ptr<Live> weak = live;

  GatehouseSpec spec{.id = live->id(),
                     .name = sandbox.key.name,
                     .slot = live->record.slot,
                     .worker_uid = settings_.worker_uid_first + live->record.slot,
                     .run_dir = run_dir_of(live->id()),
                     .state_dir = state_dir_of(live->id()),
                     .resolvers = settings_.resolvers,
                     .boundary = *std::move(boundary),
                     .log_bytes = settings_.egress_log_bytes,
                     .connections = settings_.connections};
  Gatehouse::Requests requests;
  requests.revive = [this, weak](std::chrono::milliseconds delay) {
    const auto self = weak.lock();
    if (!self) return;
    self->revive = doors_.loop.after(delay, [this, weak] {
      const auto again = weak.lock();
      if (!again) return;
      again->serial->post([this, again] {
        if (again->gatehouse->revive()) note_processes(again);
      });
    });
  };
  requests.rotate_log = [weak] {
    const auto self = weak.lock();
    if (!self) return;
    self->serial->post([self] {
      if (Result<> done = self->gatehouse->rotate_log(); !done) {
        log::error("egress log not rotated",
                   {{"sandbox", self->id()}, {"error", done.error().message}});
      }
    });
  };
  live->gatehouse = std::make_shared<Gatehouse>(doors_.loop, doors_.network, doors_.workers,
                                                std::move(spec), std::move(requests));
  live->driver.id = live->id();
  live->driver.hostname = hostname_of(sandbox.key.name);
  live->driver.run_dir = run_dir_of(live->id());
  live->driver.state_dir = state_dir_of(live->id());
  live->driver.image_dir = live->record.image_dir;
  live->driver.slot = live->record.slot;
  live->driver.resources = {.vcpus = sandbox.vcpus,
                            .memory_bytes = static_cast<std::uint64_t>(sandbox.memory_mb) << 20,
                            .disk_bytes = settings_.disk_bytes};
  const host::SandboxAddresses addresses = doors_.network.addresses(live->record.slot);
  live->driver.resolvers = {addresses.router4, addresses.router6};
  live->driver.attach_network = [this, id = live->id(), slot = live->record.slot](int pid) {
    return doors_.network.attach_guest({id, slot}, pid);
  };
  const std::lock_guard lock(mutex_);
  live_[live->id()] = live;
  return live;
}

// ---- create ----

void Supervisor::create(CreateRequest request, Done<View> done) {
  doors_.loop.offload([this, request = std::make_shared<CreateRequest>(std::move(request)),
                       done = std::move(done)] {
    if (live_count() >= settings_.max_sandboxes) {
      return done(
          fail(Code::unavailable,
               fmt::format("this node runs {} sandboxes already, its limit", live_count())));
    }
    auto image = doors_.images.find(request->image);
    if (!image) return done(std::unexpected(image.error()));
    if (auto boundary = boundary_for(settings_.boundary, request->network_id); !boundary) {
      return done(std::unexpected(boundary.error()));
    }
    const auto slot = slots_.take();
    if (!slot) return done(fail(Code::unavailable, "the node's address pool is used up"));

    const policy::PolicyPtr policy = request->policy ? request->policy : policy::allow_all();
    if (request->key.name.empty()) request->key.name = new_sandbox_name();
    const store::Millis now = now_ms();
    store::SessionRecord session{.id = new_session_id(),
                                 .sandbox = request->key,
                                 .status = std::string(to_string(State::pending)),
                                 .vcpus = request->vcpus,
                                 .memory_mb = std::int64_t{request->vcpus} * 2048,
                                 .region = request->region,
                                 .cwd = image->cwd,
                                 .timeout = request->timeout,
                                 .requested_at = now,
                                 .created_at = now,
                                 .updated_at = now,
                                 .started_at = {},
                                 .requested_stop_at = {},
                                 .stopped_at = {},
                                 .aborted_at = {},
                                 .failure = {},
                                 .slot = *slot,
                                 .image_dir = image->directory,
                                 .agent_socket = {}};
    const store::SandboxRecord sandbox{.key = request->key,
                                       .current_session = session.id,
                                       .status = session.status,
                                       .persistent = request->persistent,
                                       .vcpus = session.vcpus,
                                       .memory_mb = session.memory_mb,
                                       .timeout = session.timeout,
                                       .image = image->name,
                                       .region = session.region,
                                       .network_id = request->network_id,
                                       .tags = request->tags,
                                       .extra = request->extra,
                                       .created_at = now,
                                       .updated_at = now,
                                       .status_updated_at = now};
    json::object environment;
    for (const auto& [key, value] : image->env) environment[key] = value;
    for (const auto& [key, value] : request->env) environment[key] = value;
    const Secret sealed_env(serialize_ascii(environment));
    if (Result<> added = doors_.store.add_sandbox(
            sandbox, session,
            {1, policy::render_request(*policy), policy::render_response(*policy)}, sealed_env);
        !added) {
      slots_.release(*slot);
      if (added.error().code == Code::conflict) {
        added = fail(Code::invalid,
                     fmt::format("A sandbox with the name '{}' already exists for this project.",
                                 request->key.name));
      }
      return done(std::unexpected(added.error()));
    }
    auto live = make_live(session, sandbox);
    CHECK(live.has_value());  // the boundary was found above and does not change
    (*live)->serial->post([this, live = *live, policy, key = request->key, done] {
      Result<> up = bring_up(live, policy, 1);
      if (up) return done(view(key));
      log::error("sandbox not created", {{"sandbox", live->id()}, {"error", up.error().message}});
      // Nobody was told of it, so nothing is to remain, the name included.
      if (Result<> down = tear_down(live); !down) {
        (void)move(live, Event::start_failed);
        retry_tear_down(live);
      } else {
        if (Result<> removed = doors_.store.remove_sandbox(key); !removed)
          (void)move(live, Event::start_failed);
        remove_directory(live->driver.state_dir);
        forget_live(live);
      }
      done(std::unexpected(up.error()));
    });
  });
}

Result<> Supervisor::bring_up(const LivePtr& live, policy::PolicyPtr policy,
                              std::uint64_t version) {
  Steps steps;
  if (Result<> made = make_directory(live->driver.run_dir); !made) return made;
  if (Result<> made = make_directory(live->driver.state_dir); !made) return made;
  steps.done("directories");
  // Router and worker on one side, root file system and container on the other have nothing to do
  // with each other until the link is attached; that waits for the policy to be in force (FW-008,
  //
  std::shared_future<Result<>> opened = std::async(std::launch::async, [&] {
                                          return live->gatehouse->open(std::move(policy), version);
                                        }).share();
  DriverSpec spec = live->driver;
  spec.attach_network = [&](int pid) {
    if (const Result<>& open = opened.get(); !open) return open;
    steps.done("driver made, firewall ready");
    return live->driver.attach_network(pid);
  };
  auto running = doors_.driver.start(spec);
  if (const Result<>& open = opened.get(); !open)
    return open;  // also when the driver never got to it: it must have ended
  note_processes(live);
  if (!running) return context("driver", running.error());
  steps.done("driver started");
  const auto init = process_id_of(running->pid);
  if (!init) return fail(Code::internal, "driver: the sandbox's first process ended at once");
  live->init = *init;
  live->record.init_pid = init->pid;
  live->record.init_start = init->start_time;
  live->record.agent_socket = running->agent_socket;
  note_processes(live);
  if (Result<> ready = wait_for_agent(live); !ready) return ready;
  steps.done("agent");
  auto init_fd = open_process(live->init);
  if (!init_fd) return context("driver", init_fd.error());
  live->init_fd = *std::move(init_fd);
  if (Result<> moved = move(live, Event::started); !moved) return moved;
  watch(live);
  steps.done("store");
  steps.print("sandbox created", live->id());
  return {};
}

Result<> Supervisor::wait_for_agent(const LivePtr& live) {
  auto agent = doors_.connect_agent(live->record.agent_socket);
  auto promise = std::make_shared<std::promise<Result<>>>();
  auto answer = promise->get_future();
  agent->health(settings_.agent_limit,
                [promise](Result<> healthy) { promise->set_value(std::move(healthy)); });
  if (Result<> healthy = answer.get(); !healthy) return context("agent", healthy.error());
  live->set_agent(std::move(agent));
  return {};
}

void Supervisor::watch(const LivePtr& live) {
  const std::weak_ptr<Live> weak = live;
  live->init_watch = doors_.loop.on_readable(live->init_fd.get(), [this, weak] {
    const auto self = weak.lock();
    if (!self) return;
    self->init_watch.reset();
    self->serial->post([this, self] {
      // Ended by our own stop, or by itself?
      if (is_final(*state_from(self->record.status))) return;
      log::warn("sandbox ended by itself", {{"sandbox", self->id()}});
      (void)halt(self, Event::died, "its first process ended");
    });
  });
  const store::Millis ends_at = live->record.started_at.value_or(now_ms()) + live->record.timeout;
  live->timeout = doors_.loop.after(
      std::chrono::milliseconds(std::max<store::Millis>(0, ends_at - now_ms())), [this, weak] {
        const auto self = weak.lock();
        if (!self) return;
        self->serial->post([this, self] {
          if (self->record.started_at.value_or(0) + self->record.timeout > now_ms())
            return;  // extended meanwhile
          log::info("sandbox reached its timeout", {{"sandbox", self->id()}});
          (void)halt(self, Event::stop_requested, "");
        });
      });
}

// ---- state and store ----

Result<> Supervisor::move(const LivePtr& live, Event event) {
  const auto state = state_from(live->record.status);
  const auto to = state ? next(*state, event) : std::nullopt;
  if (!to) return fail(Code::conflict, fmt::format("the sandbox is {}", live->record.status));
  const store::Millis now = now_ms();
  live->record.status = to_string(*to);
  live->record.updated_at = now;
  if (*to == State::running) live->record.started_at = now;
  if (*to == State::stopping) live->record.requested_stop_at = now;
  if (*to == State::stopped || *to == State::failed) live->record.stopped_at = now;
  if (*to == State::aborted) live->record.aborted_at = live->record.stopped_at = now;
  return doors_.store.update_session(live->record);
}

void Supervisor::note_processes(const LivePtr& live) {
  const ProcessId worker = live->gatehouse->worker_process();
  live->record.worker_pid = worker.pid;
  live->record.worker_start = worker.start_time;
  // Only for the next daemon's convenience: without the note it replaces the worker.
  if (Result<> done = doors_.store.update_session(live->record); !done) {
    log::warn("process ids not stored", {{"sandbox", live->id()}, {"error", done.error().message}});
  }
}

// ---- while it runs ----

void Supervisor::set_policy(const std::string& session, policy::PolicyPtr policy,
                            Done<PolicyUpdate> done) {
  const LivePtr live = find_live(session);
  if (!live) return done(fail(Code::conflict, "the sandbox is not running"));
  live->serial->post([this, live, policy = std::move(policy), done = std::move(done)] {
    if (live->record.status != to_string(State::running)) {
      return done(fail(Code::conflict, fmt::format("the sandbox is {}", live->record.status)));
    }
    const std::uint64_t version = live->gatehouse->version() + 1;
    json::value response = policy::render_response(*policy);
    const auto counts = live->gatehouse->update(policy, version, [&] {
      return doors_.store.set_policy(live->record.sandbox,
                                     {version, policy::render_request(*policy), response});
    });
    note_processes(live);
    if (live->gatehouse->broken())
      (void)halt(live, Event::died, "its firewall could not be set to the old or the new policy");
    if (!counts) return done(std::unexpected(counts.error()));
    auto sandbox = doors_.store.sandbox(live->record.sandbox);
    if (!sandbox) return done(std::unexpected(sandbox.error()));
    log::info("policy in force", {{"sandbox", live->id()},
                                  {"version", version},
                                  {"kept", counts->kept},
                                  {"cut", counts->cut}});
    done(PolicyUpdate{View{*std::move(sandbox), live->record, std::move(response)}, version,
                      *counts});
  });
}

void Supervisor::extend(const std::string& session, store::Millis by, Done<View> done) {
  const LivePtr live = find_live(session);
  if (!live) return done(fail(Code::conflict, "the sandbox is not running"));
  live->serial->post([this, live, by, done = std::move(done)] {
    if (live->record.status != to_string(State::running)) {
      return done(fail(Code::conflict, fmt::format("the sandbox is {}", live->record.status)));
    }
    if (by > settings_.longest_timeout - live->record.timeout) {
      return done(
          fail(Code::invalid, fmt::format("the timeout would pass this node's maximum of {} ms",
                                          settings_.longest_timeout)));
    }
    store::SessionRecord changed = live->record;
    changed.timeout += by;
    changed.updated_at = now_ms();
    if (Result<> stored = doors_.store.update_session(changed); !stored)
      return done(std::unexpected(stored.error()));
    live->record = std::move(changed);
    watch(live);
    done(view_of_session(live->id()));
  });
}

Result<std::shared_ptr<Agent>> Supervisor::agent(const std::string& session) const {
  const LivePtr live = find_live(session);
  auto agent = live ? live->agent() : nullptr;
  if (!agent) return fail(Code::conflict, "the sandbox is not running");
  return agent;
}

void Supervisor::details(const std::string& session, Done<Details> done) {
  const LivePtr live = find_live(session);
  if (!live) return done(fail(Code::not_found, "the sandbox is not running"));
  live->serial->post([this, live, done = std::move(done)] {
    done(Details{.isolation = doors_.driver.name(),
                 .slot = live->record.slot,
                 .init_pid = live->record.init_pid,
                 .worker_pid = live->gatehouse->worker_process().pid,
                 .boundary = live->gatehouse->spec().boundary,
                 .policy_version = live->gatehouse->version(),
                 .state_dir = live->driver.state_dir});
  });
}

Result<View> Supervisor::view(const store::SandboxKey& key) {
  auto sandbox = doors_.store.find_sandbox(key);
  if (!sandbox) return std::unexpected(sandbox.error());
  auto session = doors_.store.session(sandbox->current_session);
  if (!session) return std::unexpected(session.error());
  auto policy = doors_.store.policy(sandbox->key);
  if (!policy) return std::unexpected(policy.error());
  return View{*std::move(sandbox), *std::move(session), std::move(policy->response)};
}

Result<View> Supervisor::view_of_session(const std::string& id) {
  auto session = doors_.store.session(id);
  if (!session) return std::unexpected(session.error());
  auto sandbox = doors_.store.sandbox(session->sandbox);
  if (!sandbox) return std::unexpected(sandbox.error());
  auto policy = doors_.store.policy(sandbox->key);
  if (!policy) return std::unexpected(policy.error());
  return View{*std::move(sandbox), *std::move(session), std::move(policy->response)};
}

}  // namespace sallyport::sandbox
