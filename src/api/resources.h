// SPDX-License-Identifier: Apache-2.0
// The resources of the API, one file each, and the few things they share. Every function adds its
// rows to the router; the supervisor outlives it.
#pragma once

#include <string>

#include "api/router.h"
#include "sandbox/supervisor.h"

namespace sallyport::api {

void add_session_routes(Router& router,
                        sandbox::Supervisor& supervisor);  // sessions.cc; before the sandboxes
void add_command_routes(Router& router, sandbox::Supervisor& supervisor);  // commands.cc
void add_policy_routes(Router& router, sandbox::Supervisor& supervisor);   // network_policy.cc
void add_sandbox_routes(Router& router, sandbox::Supervisor& supervisor);  // sandboxes.cc
void add_node_routes(Router& router, sandbox::Supervisor& supervisor);     // node.cc: /sallyport/v1
void add_egress_routes(Router& router, sandbox::Supervisor& supervisor);   // egress.cc
void add_image_routes(Router& router, sandbox::Supervisor& supervisor);    // images.cc

inline void add_all_routes(Router& router, sandbox::Supervisor& supervisor) {
  add_session_routes(router, supervisor);
  add_command_routes(router, supervisor);
  add_policy_routes(router, supervisor);
  add_sandbox_routes(router, supervisor);
  add_node_routes(router, supervisor);
  add_egress_routes(router, supervisor);
  add_image_routes(router, supervisor);
}

// Whose sandbox the call means: the team is the caller's, the project `projectId` or `project` of
// the query.
[[nodiscard]] store::SandboxKey key_of(const Call& call, const std::string& name);
// The session of the path, if the caller may see it; otherwise it is not found.
[[nodiscard]] asio::awaitable<Result<sandbox::View>> visible_session(
    sandbox::Supervisor& supervisor, const Call& call);
[[nodiscard]] asio::awaitable<Result<sandbox::View>> visible_sandbox(
    sandbox::Supervisor& supervisor, const Call& call);
// The refusal that clients know how to react to when a session does not run (410, 422); nothing
// when it does.
[[nodiscard]] std::optional<Reply> refuse_unless_running(const store::SessionRecord& session);
// An operation said Code::conflict: the status changed under it, so answer by what it is now.
[[nodiscard]] asio::awaitable<Reply> conflict_reply(sandbox::Supervisor& supervisor,
                                                    std::string session, Error error);
// limit, sortOrder and cursor of a list call.
[[nodiscard]] Result<> parse_page(const Call& call, store::Page& page);
// A policy from a request, refused with its path when it carries rules that this version does not
// enforce.
[[nodiscard]] Result<policy::PolicyPtr> enforceable_policy(const json::value& value,
                                                           std::string_view at);

}  // namespace sallyport::api
