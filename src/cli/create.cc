// SPDX-License-Identifier: Apache-2.0
// `sandbox create`: the name, and nothing else, on stdout.
#include "cli/cli.h"
#include "cli/format.h"
#include "cli/sandbox_flags.h"

namespace sallyport::cli {

Run define_create(CLI::App& app, Session& session) {
  auto flags = std::make_shared<SandboxFlags>();
  flags->add_to(app);
  return [flags, &session]() -> int {
    const auto request = flags->request(session);
    if (!request) return session.misuse(request.error().message);
    const auto client = session.client();
    if (!client) return session.misuse(client.error().message);
    const auto answer = create_sandbox(*client, *request);
    if (!answer) return session.complain(answer.error());
    session.terminal.out << printable(text_member(*member(*answer, "sandbox"), "name")) << "\n";
    return kOk;
  };
}

}  // namespace sallyport::cli
