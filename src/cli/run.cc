// SPDX-License-Identifier: Apache-2.0
// `sandbox run`: create and exec in one; the sandbox stays unless --stop or --rm says otherwise.
#include <fmt/format.h>

#include "cli/cli.h"
#include "cli/command_stream.h"
#include "cli/format.h"
#include "cli/sandbox_flags.h"

namespace sallyport::cli {
namespace {

struct Options {
  SandboxFlags sandbox;
  CommandFlags command;
  bool remove = false;
  bool stop = false;
  std::vector<std::string> words;
};

int run(const Options& options, Session& session) {
  std::vector<std::string> words = options.words;
  if (session.tail) words.insert(words.end(), session.tail->begin(), session.tail->end());
  if (words.empty()) return session.misuse("run needs a command: sandbox run -- COMMAND ARGS...");
  const auto request = options.sandbox.request(session);
  if (!request) return session.misuse(request.error().message);
  const auto client = session.client();
  if (!client) return session.misuse(client.error().message);

  const auto created = create_sandbox(*client, *request);
  if (!created) return session.complain(created.error());
  const std::string name = text_member(*member(*created, "sandbox"), "name");
  const auto* live = member(*created, "session");
  const std::string id = live == nullptr ? std::string() : text_member(*live, "id");
  if (!options.remove) session.terminal.err << "sandbox: running in " << printable(name) << "\n";

  const auto status = run_command(session, *client, id, options.command.request(words));
  int result = status ? *status : session.complain(status.error());
  // Cleaning up comes last and is tried whatever became of the command.
  Result<json::value> ended = json::value();
  if (options.remove) {
    ended = client->call("DELETE", session.sandbox_target(name));
  } else if (options.stop) {
    ended = client->call("POST", fmt::format("/v2/sandboxes/sessions/{}/stop", encode(id)));
  }
  if (!ended) {
    const int failed = session.complain(ended.error());
    if (result == 0) result = failed;
  }
  return result;
}

}  // namespace

Run define_run(CLI::App& app, Session& session) {
  auto options = std::make_shared<Options>();
  options->sandbox.add_to(app);
  options->command.add_to(app);
  auto* remove =
      app.add_flag("--rm", options->remove, "Delete the sandbox when the command has ended");
  app.add_flag("--stop", options->stop, "Stop the sandbox when the command has ended")
      ->excludes(remove);
  app.add_option("command", options->words, "The command; after -- its own flags are left alone");
  return [options, &session] { return run(*options, session); };
}

}  // namespace sallyport::cli
