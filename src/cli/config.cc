// SPDX-License-Identifier: Apache-2.0
// `sandbox config network-policy NAME`: the policy of a running sandbox, replaced as a whole. When
// the call is back, nothing that the new policy denies passes any more (I4); the answer says what
// became of the open connections.
#include <fmt/format.h>

#include "cli/cli.h"
#include "cli/format.h"
#include "cli/policy_flags.h"

namespace sallyport::cli {
namespace {

struct Options {
  std::string name;
  PolicyFlags policy;
};

int set_policy(const Options& options, Session& session) {
  auto policy = options.policy.policy(session.terminal.in);
  if (!policy) return session.misuse(policy.error().message);
  if (!*policy) {
    return session.misuse(
        "config network-policy needs a policy: --network-policy, --allowed-domain, --allowed-cidr, "
        "--denied-cidr or --policy");
  }
  const auto client = session.client();
  if (!client) return session.misuse(client.error().message);
  const auto found = client->call("GET", session.sandbox_target(options.name) + "&resume=false");
  if (!found) return session.complain(found.error());
  const auto* live = member(*found, "session");
  const std::string id = live == nullptr ? std::string() : text_member(*live, "id");
  if (id.empty()) return session.complain({Code::internal, "the API's answer names no session"});
  const auto answer = client->call(
      "POST", fmt::format("/v2/sandboxes/sessions/{}/network-policy", encode(id)), *policy);
  if (!answer) return session.complain(answer.error());

  std::ostream& out = session.terminal.out;
  const auto* changed = member(*answer, "session");
  const auto* now = changed == nullptr ? nullptr : member(*changed, "networkPolicy");
  const std::string mode =
      now == nullptr ? std::string("unknown") : text_member(*now, "mode", "unknown");
  out << "mode: " << printable(mode == "custom" ? "restricted" : mode) << "\n";
  if (const auto* update = member(*answer, "networkPolicyUpdate")) {
    out << "version: " << number_member(*update, "version") << "\n";
    out << "open connections kept: " << number_member(*update, "kept") << "\n";
    out << "open connections cut: " << number_member(*update, "cut") << "\n";
  }
  return kOk;
}

}  // namespace

Run define_config(CLI::App& app, Session& session) {
  auto options = std::make_shared<Options>();
  CLI::App* policy =
      app.add_subcommand("network-policy", "Replace the network policy of a running sandbox");
  app.require_subcommand(1);
  policy->add_option("name", options->name, "The sandbox")->required();
  options->policy.add_to(*policy);
  return [options, &session] { return set_policy(*options, session); };
}

}  // namespace sallyport::cli
