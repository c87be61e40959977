// SPDX-License-Identifier: Apache-2.0
// The commands that run in sandboxes: started through the agent, their output spooled, their end
// noted in the store. Whoever waits for one (API requests) watches it; nobody has to. Belongs to
// the loop's thread; only the store is written on the pool.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "sandbox/agent.h"
#include "sandbox/loop.h"
#include "sandbox/spool.h"
#include "store/store.h"

namespace sallyport::sandbox {

struct CommandRequest {
  ProcessRequest process;
  std::string name;  // as the API reports it
  std::vector<std::string> args;
  std::string cwd;
};

// One command that was started by this daemon.
class Command {
 public:
  [[nodiscard]] const store::CommandRecord& record() const { return record_; }
  [[nodiscard]] bool ended() const { return ended_; }  // exited or lost
  [[nodiscard]] const std::optional<Error>& lost() const {
    return lost_;
  }  // ended without exit code, and why
  [[nodiscard]] const std::shared_ptr<Spool>& spool() const { return spool_; }
  [[nodiscard]] int pid() const { return pid_; }

 private:
  friend class Commands;
  store::CommandRecord record_;
  std::shared_ptr<Spool> spool_;
  std::shared_ptr<Process> process_;
  int pid_ = 0;
  bool started_ = false;
  bool ended_ = false;
  bool paused_ = false;
  std::optional<Error> lost_;
};

class Commands {
 public:
  // Ended commands of which the output stays readable, per session; older ones keep their record
  // only.
  static constexpr std::size_t kKeptPerSession = 256;
  static constexpr std::size_t kRunningPerSession = 1024;
  // Of disk for the output of one session's commands, shared out evenly.
  static constexpr std::uint64_t kSpoolBudget = 256U << 20;

  Commands(Loop& loop, store::Store& store, std::string spool_dir);

  using Started = std::function<void(Result<std::shared_ptr<Command>>)>;
  // Answers once it is spawned, or Code::not_found: no such executable.
  void start(const std::string& session, std::shared_ptr<Agent> agent, CommandRequest request,
             Started started);
  // Null when this daemon did not start it or no longer keeps its output.
  [[nodiscard]] std::shared_ptr<Command> find(const std::string& session,
                                              const std::string& id) const;
  // The session is over: every command that still runs is lost, and its stream ends with that
  // error. Who is reading reads on; for everybody else the output is gone, and the records are in
  // the store.
  void session_ended(const std::string& session);

 private:
  void on_output(const std::shared_ptr<Command>& command, Output stream, Bytes bytes);
  void on_end(const std::shared_ptr<Command>& command, std::optional<ProcessExit> exit,
              std::optional<Error> lost);
  void save(const store::CommandRecord& record);
  void share_budget(const std::string& session);
  void drop_old(const std::string& session);

  store::Store& store_;
  std::string spool_dir_;
  std::shared_ptr<Serial> writes_;
  std::map<std::string, std::vector<std::shared_ptr<Command>>>
      commands_;  // by session, oldest first
};

// 128+n after signal n, 137 after a timeout (spec/api.md 1.6).
[[nodiscard]] int exit_code_of(const ProcessExit& exit);

}  // namespace sallyport::sandbox
