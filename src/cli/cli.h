// SPDX-License-Identifier: Apache-2.0
// What every command of the `sandbox` program shares: the terminal it writes to, the API it talks
// to, and the table that main.cc turns into a program. Results go to `out` and nothing else does;
// what is for people goes to `err`.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <istream>
#include <optional>
#include <ostream>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "cli/client.h"

namespace sallyport::cli {

inline constexpr int kOk = 0;
inline constexpr int kFailed = 1;  // the API or a file said no
inline constexpr int kUsage = 2;   // the command line makes no sense; nothing was sent

struct Terminal {
  std::istream& in;
  std::ostream& out;
  std::ostream& err;
  std::function<std::optional<std::string>(const std::string&)> environment;
};

struct Session {  // one run of the program
  Terminal& terminal;
  std::string api{kDefaultApi};
  std::string token{};
  std::string project = "default";
  // What stood behind the first "--": the words of a command in the sandbox, untouched.
  std::optional<std::vector<std::string>> tail{};

  [[nodiscard]] Result<Client> client() const;
  // "/v2/sandboxes/web?projectId=default" and what is added to it
  [[nodiscard]] std::string sandbox_target(std::string_view name) const;

  // Prints "sandbox: message" to err and gives the exit status.
  int complain(const Error& error) const;
  int misuse(std::string_view message) const;
};

// A command adds its options to `app` and returns what runs after they were parsed; the answer is
// the exit status.
using Run = std::function<int()>;
using Define = Run (*)(CLI::App& app, Session& session);

struct Command {
  const char* name;
  std::vector<const char*> aliases;
  const char* summary;
  Define define;
  bool takes_tail = false;
};

// The whole program, without process globals: tests call it too.
[[nodiscard]] int run_program(std::span<const std::string> arguments, Terminal& terminal);

Run define_create(CLI::App& app, Session& session);
Run define_run(CLI::App& app, Session& session);
Run define_exec(CLI::App& app, Session& session);
Run define_list(CLI::App& app, Session& session);
Run define_inspect(CLI::App& app, Session& session);
Run define_stop(CLI::App& app, Session& session);
Run define_remove(CLI::App& app, Session& session);
Run define_config(CLI::App& app, Session& session);
Run define_image(CLI::App& app, Session& session);
Run define_policy(CLI::App& app, Session& session);
Run define_egress(CLI::App& app, Session& session);

}  // namespace sallyport::cli
