// SPDX-License-Identifier: Apache-2.0
// The table of commands and how a command line becomes a call of one of them.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "cli/cli.h"

namespace sallyport::cli {
namespace {

const std::array kCommands = {
    Command{"create", {}, "Create a sandbox and print its name", define_create},
    Command{"run", {}, "Create a sandbox and run a command in it", define_run, true},
    Command{"exec", {}, "Run a command in a sandbox", define_exec, true},
    Command{"ls", {"list"}, "List sandboxes", define_list},
    Command{"inspect", {}, "Show everything about a sandbox as JSON", define_inspect},
    Command{"stop", {}, "Stop sandboxes", define_stop},
    Command{"rm", {"remove"}, "Stop and delete sandboxes", define_remove},
    Command{"config", {}, "Change a running sandbox: network-policy", define_config},
    Command{"policy", {}, "Check and explain network policies: check, explain", define_policy},
    Command{"egress", {}, "Show what a sandbox reached and what it was refused", define_egress},
    Command{"image", {}, "Manage base images: build, ls, rm", define_image},
};

// "--" is ours, not the parser's: what follows belongs to the command in the sandbox, byte for
// byte.
std::vector<std::string> take_tail(std::span<const std::string> arguments, Session& session) {
  const auto mark = std::ranges::find(arguments, "--");
  if (mark != arguments.end()) session.tail.emplace(mark + 1, arguments.end());
  return {arguments.begin(), mark};
}

std::string setting(const Terminal& terminal, const char* name, std::string otherwise) {
  auto value = terminal.environment(name);
  return value && !value->empty() ? *std::move(value) : std::move(otherwise);
}

}  // namespace

Result<Client> Session::client() const {
  auto address = ApiAddress::parse(api);
  if (!address) return std::unexpected(address.error());
  return Client(*std::move(address), token);
}

std::string Session::sandbox_target(std::string_view name) const {
  return fmt::format("/v2/sandboxes/{}?projectId={}", encode(name), encode(project));
}

int Session::complain(const Error& error) const {
  terminal.err << "sandbox: " << error.message << "\n";
  if (error.code == Code::not_found) terminal.err << "`sandbox ls --all` lists every sandbox.\n";
  return kFailed;
}

int Session::misuse(std::string_view message) const {
  terminal.err << "sandbox: " << message << "\n";
  return kUsage;
}

int run_program(std::span<const std::string> arguments, Terminal& terminal) {
  Session session{terminal};
  session.api = setting(terminal, "SALLYPORT_API", session.api);
  session.token = setting(terminal, "SALLYPORT_TOKEN", {});
  session.project = setting(terminal, "SALLYPORT_PROJECT", session.project);
  std::vector<std::string> words = take_tail(arguments, session);

  CLI::App app("Sandboxes for untrusted code, each with its own firewall outside it.", "sandbox");
  app.require_subcommand(1);
  app.fallthrough();  // --api and --project are understood after the command too
  app.set_version_flag("--version", "sandbox " SALLYPORT_VERSION);
  app.add_option("--api", session.api,
                 "Where sandboxd listens: unix:/path or http://host:port [SALLYPORT_API]");
  app.add_option("--project", session.project, "Project of the sandboxes [SALLYPORT_PROJECT]");
  app.footer(
      "http:// addresses send the bearer token in SALLYPORT_TOKEN.\nSee docs/cli.md for examples.");

  std::vector<std::pair<CLI::App*, Run>> runs;
  for (const Command& command : kCommands) {
    CLI::App* sub = app.add_subcommand(command.name, command.summary);
    for (const char* alias : command.aliases) sub->alias(alias);
    runs.emplace_back(sub, command.define(*sub, session));
  }
  try {
    std::ranges::reverse(words);  // as CLI11 wants a vector
    app.parse(words);
  } catch (const CLI::ParseError& error) {
    // The parser would only say that a subcommand is missing.
    const auto rest = app.remaining();
    if (app.get_subcommands().empty() && !rest.empty()) {
      return session.misuse(
          fmt::format("there is no command '{}'; see sandbox --help", rest.front()));
    }
    // Help and version are "errors" that succeed.
    const int status = app.exit(error, terminal.out, terminal.err);
    return status == 0 ? kOk : kUsage;
  }
  for (std::size_t i = 0; i < runs.size(); ++i) {
    if (!runs[i].first->parsed()) continue;
    if (session.tail && !kCommands[i].takes_tail) {
      return session.misuse(fmt::format("{} takes no command after --", kCommands[i].name));
    }
    const int status = runs[i].second();
    terminal.out.flush();
    return status;
  }
  return kUsage;
}

}  // namespace sallyport::cli
