// SPDX-License-Identifier: Apache-2.0
// The flags that describe a new sandbox (`create` and `run`) and those of a command in it (`run`
// and `exec`).
#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "cli/cli.h"
#include "cli/policy_flags.h"

namespace sallyport::cli {

struct SandboxFlags {
  std::string name;
  std::string image;
  std::string timeout;
  std::optional<unsigned> vcpus;
  std::string network_id;
  std::vector<std::string> tags;
  std::vector<std::string> env;
  PolicyFlags policy;

  void add_to(CLI::App& app);
  // The body of the create call.
  [[nodiscard]] Result<json::object> request(const Session& session) const;
};

struct CommandFlags {
  bool sudo = false;
  std::string workdir;

  void add_to(CLI::App& app);
  [[nodiscard]] json::object request(const std::vector<std::string>& words) const;
};

// "K=V", or "K" for the value it has here.
[[nodiscard]] Result<json::object> environment_of(const std::vector<std::string>& settings,
                                                  const Terminal& terminal);

// Creates, and answers the API's object. Says on `err` what the user should know about it.
[[nodiscard]] Result<json::value> create_sandbox(const Client& client, const json::object& request);

}  // namespace sallyport::cli
