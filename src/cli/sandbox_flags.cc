// SPDX-License-Identifier: Apache-2.0
#include "cli/sandbox_flags.h"

#include <fmt/format.h>

#include "cli/format.h"

namespace sallyport::cli {
namespace {

Result<json::object> tags_of(const std::vector<std::string>& texts) {
  json::object tags;
  for (const std::string& text : texts) {
    const auto split = text.find_first_of("=:");
    if (split == std::string::npos || split == 0)
      return fail(Code::invalid, fmt::format("--tag '{}': must be key=value", text));
    tags[text.substr(0, split)] = text.substr(split + 1);
  }
  return tags;
}

}  // namespace

void SandboxFlags::add_to(CLI::App& app) {
  app.add_option("--name", name, "Name of the sandbox; one is made up if not given");
  app.add_option("--image", image, "Base image (see `sandbox image ls`)");
  app.add_option("--timeout", timeout,
                 "How long the sandbox may live: 90s, 5m, 1h30m (default 5m)");
  app.add_option("--vcpus", vcpus, "CPUs, 1 or an even number (default 2); 2 GB of memory each");
  app.add_option("-e,--env", env,
                 "K=V for every command in the sandbox; K alone passes on its value here")
      ->allow_extra_args(false);
  app.add_option("--network-id", network_id, "Attach one of the node's private networks");
  app.add_option("--tag", tags, "key=value, at most five")->allow_extra_args(false);
  policy.add_to(app);
}

Result<json::object> SandboxFlags::request(const Session& session) const {
  json::object body{{"projectId", session.project}};
  if (!name.empty()) body["name"] = name;
  if (!image.empty()) body["image"] = image;
  const auto lifetime = parse_duration(timeout.empty() ? "5m" : timeout);
  if (!lifetime) return context("--timeout", lifetime.error());
  body["timeout"] = *lifetime;
  if (vcpus) body["resources"] = json::object{{"vcpus", *vcpus}};
  if (!network_id.empty()) body["networkId"] = network_id;
  auto labels = tags_of(tags);
  if (!labels) return std::unexpected(labels.error());
  if (!labels->empty()) body["tags"] = *std::move(labels);
  auto environment = environment_of(env, session.terminal);
  if (!environment) return std::unexpected(environment.error());
  body["env"] = *std::move(environment);
  auto chosen = policy.policy(session.terminal.in);
  if (!chosen) return std::unexpected(chosen.error());
  body["networkPolicy"] =
      *chosen ? **std::move(chosen) : json::value(json::object{{"mode", "allow-all"}});
  return body;
}

void CommandFlags::add_to(CLI::App& app) {
  app.add_flag("--sudo", sudo, "Run as root");
  app.add_option("-w,--workdir", workdir, "Directory to run in");
}

json::object CommandFlags::request(const std::vector<std::string>& words) const {
  json::array arguments;
  for (std::size_t i = 1; i < words.size(); ++i) arguments.push_back(json::string(words[i]));
  json::object body{{"command", words.front()},
                    {"args", std::move(arguments)},
                    {"sudo", sudo},
                    {"wait", true},
                    {"logs", true}};
  if (!workdir.empty()) body["cwd"] = workdir;
  return body;
}

Result<json::object> environment_of(const std::vector<std::string>& settings,
                                    const Terminal& terminal) {
  json::object out;
  for (const std::string& setting : settings) {
    const auto equals = setting.find('=');
    const std::string key = setting.substr(0, equals);
    if (key.empty())
      return fail(Code::invalid, fmt::format("--env '{}': must be KEY=value or KEY", setting));
    if (equals != std::string::npos) {
      out[key] = setting.substr(equals + 1);
      continue;
    }
    const auto value = terminal.environment(key);
    if (!value) return fail(Code::invalid, fmt::format("--env {}: not set here", key));
    out[key] = *value;
  }
  return out;
}

Result<json::value> create_sandbox(const Client& client, const json::object& request) {
  auto answer = client.call("POST", "/v3/sandboxes", json::value(request));
  if (!answer) return answer;
  const auto* sandbox = member(*answer, "sandbox");
  if (sandbox == nullptr || text_member(*sandbox, "name").empty()) {
    return fail(Code::internal, "the API's answer names no sandbox");
  }
  return answer;
}

}  // namespace sallyport::cli
