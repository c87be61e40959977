// SPDX-License-Identifier: Apache-2.0
// `sandbox exec NAME -- COMMAND`: its output, its exit status.
#include "cli/cli.h"
#include "cli/command_stream.h"
#include "cli/format.h"
#include "cli/sandbox_flags.h"

namespace sallyport::cli {
namespace {

struct Options {
  CommandFlags command;
  std::vector<std::string> env;
  std::string timeout;
  std::string name;
  std::vector<std::string> words;
};

int exec(const Options& options, Session& session) {
  std::vector<std::string> words = options.words;
  if (session.tail) words.insert(words.end(), session.tail->begin(), session.tail->end());
  if (words.empty())
    return session.misuse("exec needs a command: sandbox exec NAME -- COMMAND ARGS...");
  json::object request = options.command.request(words);
  auto environment = environment_of(options.env, session.terminal);
  if (!environment) return session.misuse(environment.error().message);
  request["env"] = *std::move(environment);
  if (!options.timeout.empty()) {
    const auto timeout = parse_duration(options.timeout);
    if (!timeout) return session.misuse("--timeout: " + timeout.error().message);
    request["timeout"] = *timeout;
  }
  const auto client = session.client();
  if (!client) return session.misuse(client.error().message);
  const auto found = client->call("GET", session.sandbox_target(options.name) + "&resume=true");
  if (!found) return session.complain(found.error());
  const auto* live = member(*found, "session");
  const std::string id = live == nullptr ? std::string() : text_member(*live, "id");
  if (id.empty()) return session.complain({Code::internal, "the API's answer names no session"});
  const auto status = run_command(session, *client, id, request);
  return status ? *status : session.complain(status.error());
}

}  // namespace

Run define_exec(CLI::App& app, Session& session) {
  auto options = std::make_shared<Options>();
  options->command.add_to(app);
  app.add_option("-e,--env", options->env, "K=V for this command; K alone passes on its value here")
      ->allow_extra_args(false);
  app.add_option("--timeout", options->timeout, "Kill the command after this long: 90s, 5m");
  app.add_option("name", options->name, "The sandbox")->required();
  app.add_option("command", options->words, "The command; after -- its own flags are left alone");
  return [options, &session] { return exec(*options, session); };
}

}  // namespace sallyport::cli
