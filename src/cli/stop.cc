// SPDX-License-Identifier: Apache-2.0
// `sandbox stop` and `sandbox rm`: several names, each tried; the names that went are printed.
#include <fmt/format.h>

#include "cli/cli.h"
#include "cli/format.h"

namespace sallyport::cli {
namespace {

Result<> stop_one(const Session& session, const Client& client, const std::string& name) {
  const auto found = client.call("GET", session.sandbox_target(name) + "&resume=false");
  if (!found) return std::unexpected(found.error());
  const auto* live = member(*found, "session");
  const std::string id = live == nullptr ? std::string() : text_member(*live, "id");
  if (id.empty()) return fail(Code::internal, "the API's answer names no session");
  const auto stopped =
      client.call("POST", fmt::format("/v2/sandboxes/sessions/{}/stop", encode(id)));
  if (!stopped) return std::unexpected(stopped.error());
  return {};
}

Result<> remove_one(const Session& session, const Client& client, const std::string& name) {
  const auto removed = client.call("DELETE", session.sandbox_target(name));
  if (!removed) return std::unexpected(removed.error());
  return {};
}

Run each_name(CLI::App& app, Session& session,
              Result<> (*act)(const Session&, const Client&, const std::string&)) {
  auto names = std::make_shared<std::vector<std::string>>();
  app.add_option("name", *names, "One or more sandboxes")->required();
  return [names, act, &session]() -> int {
    const auto client = session.client();
    if (!client) return session.misuse(client.error().message);
    int status = kOk;
    for (const std::string& name : *names) {
      if (const auto done = act(session, *client, name); !done) {
        status = session.complain(done.error());
      } else {
        session.terminal.out << printable(name) << "\n";
      }
    }
    return status;
  };
}

}  // namespace

Run define_stop(CLI::App& app, Session& session) { return each_name(app, session, stop_one); }
Run define_remove(CLI::App& app, Session& session) { return each_name(app, session, remove_one); }

}  // namespace sallyport::cli
