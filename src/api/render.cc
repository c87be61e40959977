// SPDX-License-Identifier: Apache-2.0
#include "api/render.h"

namespace sallyport::api {
namespace {

void put(json::object& to, std::string_view key, const std::optional<store::Millis>& value) {
  if (value) to[key] = *value;
}

}  // namespace

json::object render_sandbox(const store::SandboxRecord& sandbox, const json::value& policy) {
  json::object out = {
      {"name", sandbox.key.name},
      {"persistent", sandbox.persistent},
      {"status", sandbox.status},
      {"currentSessionId", sandbox.current_session},
      {"createdAt", sandbox.created_at},
      {"updatedAt", sandbox.updated_at},
      {"statusUpdatedAt", sandbox.status_updated_at},
      {"region", sandbox.region},
      {"image", sandbox.image},
      {"vcpus", sandbox.vcpus},
      {"memory", sandbox.memory_mb},
      {"timeout", sandbox.timeout},
      {"projectId", sandbox.key.project},
      {"totalEgressBytes", sandbox.total_egress},
      {"totalIngressBytes", sandbox.total_ingress},
      {"totalDurationMs", sandbox.total_duration},
  };
  if (!policy.is_null()) out["networkPolicy"] = policy;
  if (sandbox.network_id) out["networkId"] = *sandbox.network_id;
  if (!sandbox.tags.empty()) {
    json::object tags;
    for (const auto& [key, value] : sandbox.tags) tags[key] = value;
    out["tags"] = std::move(tags);
  }
  for (const auto& [key, value] : sandbox.extra) out[key] = value;
  return out;
}

json::object render_session(const store::SessionRecord& session, const json::value& policy) {
  json::object out = {
      {"id", session.id},
      {"memory", session.memory_mb},
      {"vcpus", session.vcpus},
      {"region", session.region},
      {"timeout", session.timeout},
      {"status", session.status},
      {"requestedAt", session.requested_at},
      {"createdAt", session.created_at},
      {"updatedAt", session.updated_at},
      {"cwd", session.cwd},
      {"sourceSandboxName", session.sandbox.name},
      {"projectId", session.sandbox.project},
  };
  put(out, "startedAt", session.started_at);
  put(out, "requestedStopAt", session.requested_stop_at);
  put(out, "stoppedAt", session.stopped_at);
  put(out, "abortedAt", session.aborted_at);
  if (session.stopped_at) {
    if (session.started_at) out["duration"] = *session.stopped_at - *session.started_at;
    out["networkTransfer"] = json::object{{"ingress", session.ingress}, {"egress", session.egress}};
  }
  if (!session.failure.empty()) out["failure"] = session.failure;
  if (!policy.is_null()) out["networkPolicy"] = policy;
  return out;
}

json::object render_command(const store::CommandRecord& command) {
  json::object out = {
      {"id", command.id},
      {"name", command.name},
      {"args", json::array(command.args.begin(), command.args.end())},
      {"cwd", command.cwd},
      {"sessionId", command.session},
      {"exitCode", nullptr},
      {"startedAt", command.started_at},
  };
  if (command.exit_code) out["exitCode"] = *command.exit_code;
  put(out, "durationMs", command.duration);
  return out;
}

json::object render_view(const sandbox::View& view) {
  return {{"sandbox", render_sandbox(view.sandbox, view.policy)},
          {"session", render_session(view.session, view.policy)},
          {"routes", json::array()}};
}

json::object render_pagination(std::size_t count, const std::optional<std::string>& next) {
  json::object page = {{"count", count}, {"next", nullptr}};
  if (next) page["next"] = *next;
  return page;
}

}  // namespace sallyport::api
