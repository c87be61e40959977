// SPDX-License-Identifier: Apache-2.0
#include "sandbox/commands.h"

#include <algorithm>
#include <utility>

#include "base/log.h"
#include "sandbox/names.h"

namespace sallyport::sandbox {

int exit_code_of(const ProcessExit& exit) {
  if (exit.timed_out) return 137;
  if (exit.signal > 0) return 128 + exit.signal;
  return exit.code;
}

Commands::Commands(Loop& loop, store::Store& store, std::string spool_dir)
    : store_(store), spool_dir_(std::move(spool_dir)), writes_(std::make_shared<Serial>(loop)) {}

void Commands::start(const std::string& session, std::shared_ptr<Agent> agent,
                     CommandRequest request, Started started) {
  auto& of_session = commands_[session];
  const auto running =
      std::ranges::count_if(of_session, [](const auto& each) { return !each->ended_; });
  if (static_cast<std::size_t>(running) >= kRunningPerSession) {
    return started(fail(Code::unavailable, "this sandbox runs too many commands at once"));
  }
  auto spool = Spool::open(spool_dir_);
  if (!spool) return started(std::unexpected(spool.error()));

  auto command = std::make_shared<Command>();
  command->record_ = {.id = new_command_id(),
                      .session = session,
                      .name = std::move(request.name),
                      .args = std::move(request.args),
                      .cwd = std::move(request.cwd),
                      .started_at = now_ms(),
                      .exit_code = {},
                      .duration = {}};
  command->spool_ = *std::move(spool);
  of_session.push_back(command);
  drop_old(session);
  share_budget(session);

  // Until it has started, whoever asked for it keeps it; afterwards the registry does, or who reads
  // its output.
  struct Asked {
    Started started;
    std::shared_ptr<Command> command;
    void answer(Result<std::shared_ptr<Command>> result) {
      command.reset();
      if (const Started once = std::exchange(started, nullptr)) once(std::move(result));
    }
  };
  std::weak_ptr<Command> weak = command;
  auto asked = std::make_shared<Asked>(std::move(started), command);
  ProcessEvents events;
  events.started = [this, weak, asked](int pid) {
    const auto self = weak.lock();
    if (!self || self->started_ || self->ended_) return;
    self->started_ = true;
    self->pid_ = pid;
    self->record_.started_at = now_ms();
    save(self->record_);
    asked->answer(self);
  };
  events.output = [this, weak](Output stream, Bytes bytes) {
    if (const auto self = weak.lock()) on_output(self, stream, bytes);
  };
  events.exited = [this, weak](ProcessExit exit) {
    if (const auto self = weak.lock()) on_end(self, exit, std::nullopt);
  };
  events.failed = [this, weak, asked](Error error) {
    const auto self = weak.lock();
    if (!self || self->ended_) return;
    if (self->started_) return on_end(self, std::nullopt, std::move(error));
    self->ended_ = true;
    if (const auto found = commands_.find(self->record_.session); found != commands_.end()) {
      std::erase(found->second, self);
      if (found->second.empty()) commands_.erase(found);
    }
    asked->answer(std::unexpected(std::move(error)));
  };
  command->spool_->set_drained([weak] {
    const auto self = weak.lock();
    if (!self || !self->paused_ || !self->process_) return;
    self->paused_ = false;
    self->process_->resume();
  });
  command->process_ = agent->start(std::move(request.process), std::move(events));
}

std::shared_ptr<Command> Commands::find(const std::string& session, const std::string& id) const {
  const auto found = commands_.find(session);
  if (found == commands_.end()) return nullptr;
  const auto command =
      std::ranges::find_if(found->second, [&](const auto& each) { return each->record_.id == id; });
  return command == found->second.end() || !(*command)->started_ ? nullptr : *command;
}

void Commands::session_ended(const std::string& session) {
  const auto found = commands_.find(session);
  if (found == commands_.end()) return;
  const auto all = std::move(found->second);
  commands_.erase(found);
  for (const auto& command : all) {
    if (!command->started_ || command->ended_) continue;
    on_end(command, std::nullopt,
           Error{Code::unavailable, "Sandbox stream was closed and is not accepting commands."});
  }
}

void Commands::on_output(const std::shared_ptr<Command>& command, Output stream, Bytes bytes) {
  if (command->ended_) return;
  if (Result<> done = command->spool_->append(stream, bytes); !done) {
    log::error("a command's output is lost",
               {{"command", command->record_.id}, {"error", done.error().message}});
    return on_end(command, std::nullopt, done.error());
  }
  if (command->spool_->full() && !command->paused_ && command->process_) {
    command->paused_ = true;
    command->process_->pause();
  }
}

void Commands::on_end(const std::shared_ptr<Command>& command, std::optional<ProcessExit> exit,
                      std::optional<Error> lost) {
  if (command->ended_) return;
  command->ended_ = true;
  command->lost_ = std::move(lost);
  if (exit) {
    command->record_.exit_code = exit_code_of(*exit);
    command->record_.duration = std::max<store::Millis>(0, now_ms() - command->record_.started_at);
    save(command->record_);
  }
  command->process_.reset();
  command->spool_->end();
}

void Commands::save(const store::CommandRecord& record) {
  writes_->post([&store = store_, record] {
    // The sandbox may have been deleted meanwhile; its commands went with it.
    if (Result<> done = store.put_command(record); !done) {
      log::debug("command not stored", {{"command", record.id}, {"error", done.error().message}});
    }
  });
}

void Commands::share_budget(const std::string& session) {
  const auto& all = commands_[session];
  for (const auto& command : all) command->spool_->set_kept(kSpoolBudget / all.size());
}

void Commands::drop_old(const std::string& session) {
  auto& all = commands_[session];
  std::size_t ended = static_cast<std::size_t>(
      std::ranges::count_if(all, [](const auto& each) { return each->ended_; }));
  std::erase_if(all, [&](const auto& each) {
    if (!each->ended_ || ended <= kKeptPerSession) return false;
    --ended;
    return true;
  });
}

}  // namespace sallyport::sandbox
