// SPDX-License-Identifier: Apache-2.0
// `sandbox policy check FILE` and `sandbox policy explain FILE|NAME TARGET`. Both judge with the
// firewall's own code and need no daemon for a file.
#include <fmt/format.h>

#include <filesystem>

#include "cli/cli.h"
#include "cli/format.h"
#include "cli/policy_flags.h"
#include "policy/explain.h"
#include "policy/notes.h"
#include "policy/policy_json.h"

namespace sallyport::cli {
namespace {

// A policy and the boundary that it stands within.
struct Judge {
  policy::PolicyPtr policy;
  policy::Boundary boundary;
  std::string where;  // for people
};

Result<policy::PolicyPtr> policy_of_file(const Session& session, const std::string& file) {
  const auto text = read_policy_file(file, session.terminal.in);
  if (!text) return std::unexpected(text.error());
  auto parsed = policy::parse_policy(*text);
  if (!parsed) return context(file == "-" ? "standard input" : file, parsed.error());
  return parsed;
}

int check(Session& session, const std::string& file) {
  const auto parsed = policy_of_file(session, file);
  if (!parsed) return session.complain(parsed.error());
  print_json(session.terminal.out, policy::render_redacted(**parsed));
  if ((*parsed)->has_rules()) {
    session.terminal.err
        << "note: this version of sandboxd refuses policies with rules: they are not applied yet\n";
  }
  for (const std::string& note : policy::notes(**parsed))
    session.terminal.err << "note: " << note << "\n";
  return kOk;
}

std::vector<Cidr> ranges(const json::value& boundary, std::string_view key) {
  std::vector<Cidr> out;
  const auto* list = member(boundary, key);
  if (list == nullptr || !list->is_array()) return out;
  for (const auto& each : list->get_array()) {
    const auto range =
        each.is_string() ? Cidr::parse(std::string_view(each.get_string())) : std::nullopt;
    if (range) out.push_back(*range);
  }
  return out;
}

policy::Boundary boundary_of(const json::value& limits) {
  return {ranges(limits, "closed"), ranges(limits, "opened"), ranges(limits, "attached")};
}

// What is shown of a live policy has "<redacted>" for secrets, which the parser refuses on purpose
// explaining needs no values, so any other text does.
void replace_redacted(json::value& value) {
  if (value.is_string() && value.get_string() == "<redacted>") value = "redacted";
  if (value.is_array()) {
    for (auto& each : value.get_array()) replace_redacted(each);
  }
  if (value.is_object()) {
    for (auto& each : value.get_object()) replace_redacted(each.value());
  }
}

Result<Judge> judge_of_sandbox(Session& session, const std::string& name) {
  const auto client = session.client();
  if (!client) return std::unexpected(client.error());
  auto answer = client->call("GET", fmt::format("/sallyport/v1/sandboxes/{}/policy?projectId={}",
                                                encode(name), encode(session.project)));
  if (!answer) {
    if (answer.error().code != Code::not_found) return std::unexpected(answer.error());
    return fail(Code::not_found,
                fmt::format("there is neither a file nor a sandbox called '{}'", name));
  }
  const auto* shown = member(*answer, "policy");
  if (shown == nullptr) return fail(Code::internal, "the API's answer has no policy");
  json::value readable = *shown;
  replace_redacted(readable);
  auto parsed = policy::policy_from_json(readable);
  if (!parsed) return context("the API's answer", parsed.error());
  const auto* boundary = member(*answer, "boundary");
  const json::value none = json::object{};
  const json::value& limits = boundary == nullptr ? none : *boundary;
  return Judge{*std::move(parsed), boundary_of(limits),
               fmt::format("sandbox {}, policy version {}", printable(name),
                           number_member(*answer, "version"))};
}

// A file is judged as a new sandbox of this node would be; without a daemon, by the boundary that
// nobody configured.
Result<Judge> judge_of_file(Session& session, const std::string& file, const std::string& network) {
  auto parsed = policy_of_file(session, file);
  if (!parsed) return std::unexpected(parsed.error());
  const auto client = session.client();
  if (!client) return std::unexpected(client.error());
  const std::string query = network.empty() ? "" : "?networkId=" + encode(network);
  const auto answer = client->call("GET", "/sallyport/v1/boundary" + query);
  if (!answer) {
    if (answer.error().code != Code::unavailable || !network.empty())
      return std::unexpected(answer.error());
    return Judge{*std::move(parsed), policy::Boundary(),
                 "file, no daemon asked: only globally routable addresses are inside the boundary"};
  }
  const auto* limits = member(*answer, "boundary");
  if (limits == nullptr) return fail(Code::internal, "the API's answer has no boundary");
  return Judge{*std::move(parsed), boundary_of(*limits), "file, with the boundary of the node"};
}

Result<Judge> judge_of(Session& session, const std::string& source, const std::string& network) {
  std::error_code ignored;
  const bool file = source == "-" || std::filesystem::exists(source, ignored);
  return file ? judge_of_file(session, source, network) : judge_of_sandbox(session, source);
}

int explain(Session& session, const std::string& source, const std::string& target,
            const std::string& network) {
  const auto judge = judge_of(session, source, network);
  if (!judge) return session.complain(judge.error());
  const auto explanation = policy::explain(*judge->policy, judge->boundary, target);
  if (!explanation) return session.misuse(explanation.error().message);
  session.terminal.out << "from: " << judge->where << "\n";
  for (const std::string& line : explanation->lines)
    session.terminal.out << printable(line) << "\n";
  return explanation->allowed() ? kOk : kFailed;
}

}  // namespace

Run define_policy(CLI::App& app, Session& session) {
  struct Options {
    std::string file;
    std::string source;
    std::string target;
    std::string network;
    CLI::App* checking = nullptr;
  };
  auto options = std::make_shared<Options>();
  app.require_subcommand(1);
  options->checking = app.add_subcommand(
      "check", "Validate a policy file and print its normal form, secrets redacted");
  options->checking->add_option("file", options->file, "The file, - for standard input")
      ->required();
  CLI::App* explaining = app.add_subcommand(
      "explain", "Say what a policy does with a target and why; exit 0 allowed, 1 denied");
  explaining
      ->add_option("policy", options->source,
                   "A policy file (- for standard input) or the name of a sandbox")
      ->required();
  explaining->add_option("target", options->target, "A URL, host:port, host or address")
      ->required();
  explaining->add_option("--network-id", options->network,
                         "With a file: as a sandbox with this network attached");
  return [options, &session] {
    return options->checking->parsed()
               ? check(session, options->file)
               : explain(session, options->source, options->target, options->network);
  };
}

}  // namespace sallyport::cli
