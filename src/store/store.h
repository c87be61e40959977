// SPDX-License-Identifier: Apache-2.0
// What the control plane remembers: sandboxes, their sessions, commands and policies. An interface
// small enough for etcd to stand behind it later; sqlite_store.h is the one that exists. Every call
// is one transaction and may come from any thread. Policies and environments may hold secrets, so
// they pass as Secret and are sealed before they touch the disk (sealer.h).
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "base/secret.h"

namespace sallyport::store {

using Millis = std::int64_t;  // since the epoch, as the API writes times

struct SandboxKey {
  std::string team;
  std::string project;
  std::string name;
  auto operator<=>(const SandboxKey&) const = default;
};

// The named, possibly persistent object. `status` follows the current session's.
struct SandboxRecord {
  SandboxKey key;
  std::string current_session;
  std::string status;
  bool persistent = true;
  unsigned vcpus = 2;
  std::int64_t memory_mb = 4096;
  Millis timeout = 300'000;
  std::string image;
  std::string region = "iad1";
  std::optional<std::string> network_id;
  std::map<std::string, std::string> tags;
  json::object extra;  // request fields that are only kept and reported
  Millis created_at = 0, updated_at = 0, status_updated_at = 0;
  std::int64_t total_egress = 0, total_ingress = 0, total_duration = 0;
};

// One run of a sandbox. The last group is what a restarted daemon needs to find it again; it never
// leaves the node.
struct SessionRecord {
  std::string id;
  SandboxKey sandbox;
  std::string status;
  unsigned vcpus = 2;
  std::int64_t memory_mb = 4096;
  std::string region = "iad1";
  std::string cwd = "/vercel";
  Millis timeout = 300'000;  // whole life, from started_at
  Millis requested_at = 0, created_at = 0, updated_at = 0;
  std::optional<Millis> started_at, requested_stop_at, stopped_at, aborted_at;
  std::int64_t egress = 0, ingress = 0;
  std::string failure;  // why it failed, a sentence

  unsigned slot = 0;
  std::string image_dir;
  int worker_pid = 0;
  std::uint64_t worker_start = 0;
  int init_pid = 0;
  std::uint64_t init_start = 0;
  std::string agent_socket;
};

struct CommandRecord {
  std::string id;
  std::string session;
  std::string name;
  std::vector<std::string> args;
  std::string cwd;
  Millis started_at = 0;
  std::optional<int> exit_code;
  std::optional<Millis> duration;
};

// The policy of a named sandbox; versions only grow. `request` is policy::render_request,
// `response` the redacted form that may be shown.
struct PolicyRecord {
  std::uint64_t version = 0;
  Secret request;
  json::value response;
};

struct Page {
  std::size_t limit = 20;
  std::string cursor;  // opaque, from a former `next`
  bool descending = true;
};
struct SandboxFilter {
  std::optional<std::string> team, project, status, name_prefix;
  std::optional<std::pair<std::string, std::string>> tag;
  enum class Sort { created_at, name, status_updated_at } sort = Sort::created_at;
};
struct SessionFilter {
  std::optional<std::string> team, project, name;
};
template <class T>
struct PageOf {
  std::vector<T> items;
  std::optional<std::string> next;  // absent on the last page
};

class Store {
 public:
  virtual ~Store() = default;

  // Adds both at once, with the sandbox's first policy and environment. Code::conflict if the name
  // is taken.
  [[nodiscard]] virtual Result<> add_sandbox(const SandboxRecord& sandbox,
                                             const SessionRecord& session,
                                             const PolicyRecord& policy,
                                             const Secret& environment) = 0;
  [[nodiscard]] virtual Result<SandboxRecord> sandbox(const SandboxKey& key) = 0;
  // Looks in every team when `key.team` is empty.
  [[nodiscard]] virtual Result<SandboxRecord> find_sandbox(const SandboxKey& key) = 0;
  [[nodiscard]] virtual Result<PageOf<SandboxRecord>> sandboxes(const SandboxFilter& filter,
                                                                const Page& page) = 0;
  // With its sessions, commands, policy and environment.
  [[nodiscard]] virtual Result<> remove_sandbox(const SandboxKey& key) = 0;
  [[nodiscard]] virtual Result<Secret> environment(const SandboxKey& key) = 0;

  [[nodiscard]] virtual Result<SessionRecord> session(std::string_view id) = 0;
  [[nodiscard]] virtual Result<PageOf<SessionRecord>> sessions(const SessionFilter& filter,
                                                               const Page& page) = 0;
  // Every session that may still have something in the kernel.
  [[nodiscard]] virtual Result<std::vector<SessionRecord>> live_sessions() = 0;
  // Writes the session and carries its status over to the sandbox.
  [[nodiscard]] virtual Result<> update_session(const SessionRecord& session) = 0;

  [[nodiscard]] virtual Result<PolicyRecord> policy(const SandboxKey& key) = 0;
  // Code::conflict unless `policy.version` is greater than what is stored.
  [[nodiscard]] virtual Result<> set_policy(const SandboxKey& key, const PolicyRecord& policy) = 0;

  [[nodiscard]] virtual Result<> put_command(const CommandRecord& command) = 0;
  [[nodiscard]] virtual Result<CommandRecord> command(std::string_view session,
                                                      std::string_view id) = 0;
  [[nodiscard]] virtual Result<std::vector<CommandRecord>> commands(std::string_view session) = 0;
};

}  // namespace sallyport::store
