// SPDX-License-Identifier: Apache-2.0
#include "api/resources.h"

#include <fmt/format.h>

#include "api/await.h"
#include "policy/policy_json.h"
#include "sandbox/names.h"

namespace sallyport::api {

store::SandboxKey key_of(const Call& call, const std::string& name) {
  auto project = call.query_value("projectId");
  if (!project) project = call.query_value("project");
  return {call.principal.team.value_or(""), project.value_or("default"), name};
}

asio::awaitable<Result<sandbox::View>> visible_session(sandbox::Supervisor& supervisor,
                                                       const Call& call) {
  const std::string id = call.param("id");
  const auto team = call.principal.team;
  auto work = [&supervisor, id, team]() -> Result<sandbox::View> {
    auto view = sandbox::is_session_id(id)
                    ? supervisor.view_of_session(id)
                    : fail(Code::not_found, fmt::format("session '{}' not found", id));
    // A foreign session is answered as one that does not exist, so that ids cannot be probed.
    if (view && team && view->sandbox.key.team != *team)
      return fail(Code::not_found, fmt::format("session '{}' not found", id));
    return view;
  };
  co_return co_await on_pool<sandbox::View>(supervisor.loop(), std::move(work));
}

asio::awaitable<Result<sandbox::View>> visible_sandbox(sandbox::Supervisor& supervisor,
                                                       const Call& call) {
  auto work = [&supervisor, key = key_of(call, call.param("name"))] {
    return supervisor.view(key);
  };
  co_return co_await on_pool<sandbox::View>(supervisor.loop(), std::move(work));
}

std::optional<Reply> refuse_unless_running(const store::SessionRecord& session) {
  if (session.status == "running") return std::nullopt;
  if (session.status == "stopping")
    return error_reply(422, "sandbox_stopping", "The sandbox is stopping.");
  if (session.status == "snapshotting")
    return error_reply(422, "sandbox_snapshotting", "The sandbox is taking a snapshot.");
  if (session.status == "pending") return error_reply(409, "conflict", "The sandbox is starting.");
  return error_reply(410, "sandbox_stopped", "The sandbox has stopped.");
}

asio::awaitable<Reply> conflict_reply(sandbox::Supervisor& supervisor, std::string session,
                                      Error error) {
  if (error.code != Code::conflict) co_return error_reply(error);
  auto work = [&supervisor, session = std::move(session)] {
    return supervisor.view_of_session(session);
  };
  const auto view = co_await on_pool<sandbox::View>(supervisor.loop(), std::move(work));
  if (!view) co_return error_reply(view.error());
  if (auto refused = refuse_unless_running(view->session)) co_return *std::move(refused);
  co_return error_reply(error);
}

Result<policy::PolicyPtr> enforceable_policy(const json::value& value, std::string_view at) {
  auto policy = policy::policy_from_json(value, at);
  if (!policy || !(*policy)->has_rules()) return policy;
  // Half of a policy must never be in force: its access without its handling would send requests
  // without credentials.
  for (const policy::DomainEntry& entry : (*policy)->domains) {
    if (entry.rules.empty()) continue;
    const bool listed = value.is_object() && value.get_object().contains("allow");
    const std::string place = listed ? json_path_key(json_path_key(at, "allow"), entry.pattern)
                                     : json_path_key(at, "injectionRules");
    return fail(
        Code::invalid,
        fmt::format(
            "{}: the rules of '{}' are valid, but this version does not enforce rules (transform, "
            "forwardURL, response) yet; the policy was not changed",
            place, entry.pattern));
  }
  return policy;
}

}  // namespace sallyport::api
