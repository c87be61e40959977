// SPDX-License-Identifier: Apache-2.0
// A node without root: everything a sandbox has in the kernel is a file in a directory. So it
// survives the process that made it, a second supervisor can find it, and "nothing is left" is an
// empty directory. Every change is a numbered step at which a test may let it fail, or end the
// whole process as kill -9 would.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "sandbox/agent.h"
#include "sandbox/driver.h"
#include "sandbox/images.h"
#include "sandbox/loop.h"
#include "sandbox/network.h"
#include "sandbox/worker.h"

namespace sallyport::test {

class FakeKernel {
 public:
  explicit FakeKernel(std::string directory);
  ~FakeKernel();  // ends the processes that play guests

  // Step numbers count from 1. 0: never.
  std::atomic<int> fail_at = 0;
  std::atomic<int> kill_at = 0;
  [[nodiscard]] int steps() const { return steps_; }
  void restart_count() { steps_ = 0; }

  [[nodiscard]] Result<> step(const std::string& what);
  // Ends the process at once, past every destructor and exit handler, as a signal would.
  [[noreturn]] static void die(int code);
  void put(const std::string& kind, const std::string& id, const std::string& content);
  void remove(const std::string& kind, const std::string& id);
  [[nodiscard]] std::string content(const std::string& kind,
                                    const std::string& id) const;  // "" when absent
  [[nodiscard]] std::vector<std::string> ids(const std::string& kind) const;
  [[nodiscard]] std::vector<std::string> everything() const;  // "router/sbx_1", ...

 private:
  std::string directory_;
  std::atomic<int> steps_ = 0;
};

class FakeNetwork : public sandbox::Network {
 public:
  explicit FakeNetwork(FakeKernel& kernel) : kernel_(kernel) {}
  Result<> setup_node() override { return kernel_.step("setup_node"); }
  unsigned slot_count() const override { return 64; }
  host::SandboxAddresses addresses(unsigned slot) const override;
  Result<> create_router(const host::SandboxNetwork& sandbox) override;
  Result<std::vector<Fd>> open_worker_sockets(const host::SandboxNetwork& sandbox) override;
  Result<host::Applied> apply(const host::SandboxNetwork& sandbox,
                              const host::AddressPolicy& policy) override;
  Result<> attach_guest(const host::SandboxNetwork& sandbox, int pid) override;
  Result<> destroy(const host::SandboxNetwork& sandbox) override;
  Result<std::vector<std::string>> leftovers() override { return kernel_.ids("router"); }

 private:
  FakeKernel& kernel_;
};

// Answers the control protocol in memory; what policy it has committed is a file too
// ("worker/<id>": "v3 <policy>").
class FakeWorkers : public sandbox::WorkerLauncher {
 public:
  FakeWorkers(FakeKernel& kernel, sandbox::Loop& loop) : kernel_(kernel), loop_(loop) {}
  Result<std::shared_ptr<sandbox::Worker>> launch(const sandbox::WorkerSpec& spec,
                                                  std::vector<Fd> sockets, Fd log,
                                                  sandbox::WorkerEvents events) override;
  Result<std::shared_ptr<sandbox::Worker>> adopt(const sandbox::WorkerSpec& spec,
                                                 sandbox::ProcessId process,
                                                 sandbox::WorkerEvents events) override;
  Result<> end(const sandbox::WorkerSpec& spec) override;
  Result<> kill_strays(const std::set<unsigned>& keep_uids) override;

  void kill(const std::string& id);      // as if it crashed
  void set_mute(const std::string& id);  // reads, never answers
  void say_log_full(const std::string& id);
  [[nodiscard]] int launched() const { return launched_; }
  std::atomic<bool> refuse_launch = false;

  class FakeWorker;

 private:
  std::shared_ptr<FakeWorker> make(const std::string& id, int pid, sandbox::WorkerEvents events);

  FakeKernel& kernel_;
  sandbox::Loop& loop_;
  std::mutex mutex_;
  std::map<std::string, std::weak_ptr<FakeWorker>> workers_;
  std::atomic<int> launched_ = 0;
  std::atomic<int> next_pid_ = 1'000'000;
};

// A guest is a real process that does nothing, so that pidfds work; "guest/<id>" holds its pid.
class FakeDriver : public sandbox::Driver {
 public:
  explicit FakeDriver(FakeKernel& kernel) : kernel_(kernel) {}
  std::string name() const override { return "fake"; }
  Result<sandbox::Running> start(const sandbox::DriverSpec& spec) override;
  bool alive(const std::string& id, int pid) override;
  Result<> destroy(const sandbox::DriverSpec& spec) override;
  Result<std::vector<std::string>> leftovers() override { return kernel_.ids("guest"); }

 private:
  FakeKernel& kernel_;
};

class FakeImages : public sandbox::Images {
 public:
  Result<sandbox::Image> find(const std::string& name) override;
  Result<std::vector<sandbox::Image>> list() override;
  Result<sandbox::Image> build(const std::string& name,
                               const std::function<void(const std::string&)>& progress) override;
  Result<> remove(const std::string& name) override;
};

// Runs these commands: echo ARGS..., cat-env NAME, exit N, bytes HEX..., flood N (bytes), hang
// (until killed), and `whoami`. Others are not found. `die-at-start` breaks the connection.
[[nodiscard]] sandbox::AgentConnector fake_agents(FakeKernel& kernel, sandbox::Loop& loop);

}  // namespace sallyport::test
