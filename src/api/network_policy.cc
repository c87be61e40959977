// SPDX-License-Identifier: Apache-2.0
// POST sessions/{id}/network-policy: the whole policy is replaced, is in force when the answer
// leaves (I4), and says how many open flows it kept and cut. A refused one changes nothing.
#include <fmt/format.h>

#include "api/await.h"
#include "api/render.h"
#include "api/resources.h"
#include "policy/policy_json.h"

namespace sallyport::api {
namespace {

using sandbox::PolicyUpdate;
using sandbox::Supervisor;

asio::awaitable<Reply> set(Supervisor& supervisor, const Call& call) {
  // Whether the session runs comes first: a client that has to resume is told so, whatever it sent.
  const auto known = co_await visible_session(supervisor, call);
  if (!known) co_return error_reply(known.error());
  if (auto refused = refuse_unless_running(known->session)) co_return *std::move(refused);
  auto parse = [body = call.body]() -> Result<policy::PolicyPtr> {
    const auto value = parse_json(body, {.max_bytes = kPolicyBody, .max_depth = 32});
    if (!value) return fail(Code::invalid, "the body is not JSON: " + value.error().message);
    return enforceable_policy(*value, "$");
  };
  auto policy = co_await on_pool<policy::PolicyPtr>(supervisor.loop(), std::move(parse));
  if (!policy) co_return error_reply(policy.error());
  auto start = [&supervisor, id = known->session.id,
                policy = *std::move(policy)](auto done) mutable {
    supervisor.set_policy(id, std::move(policy), std::move(done));
  };
  const auto update = co_await answer_of<PolicyUpdate>(std::move(start));
  if (!update) co_return co_await conflict_reply(supervisor, known->session.id, update.error());
  co_return json_reply({{"session", render_session(update->view.session, update->view.policy)},
                        {"networkPolicyUpdate",
                         {{"version", update->version},
                          {"kept", update->counts.kept},
                          {"cut", update->counts.cut}}}});
}

// GET /sallyport/v1/sandboxes/{name}/policy: what is in force, in the request grammar without its
// secrets.
asio::awaitable<Reply> get(Supervisor& supervisor, const Call& call) {
  const auto view = co_await visible_sandbox(supervisor, call);
  if (!view) co_return error_reply(view.error());
  auto work = [&supervisor, key = view->sandbox.key]() -> Result<json::object> {
    const auto stored = supervisor.store().policy(key);
    if (!stored) return std::unexpected(stored.error());
    const auto policy = policy::parse_policy(stored->request.reveal());
    if (!policy) return std::unexpected(policy.error());
    const auto sandbox = supervisor.store().sandbox(key);
    if (!sandbox) return std::unexpected(sandbox.error());
    const auto boundary =
        sandbox::boundary_for(supervisor.settings().boundary, sandbox->network_id);
    return json::object{{"version", stored->version},
                        {"policy", policy::render_redacted(**policy)},
                        {"boundary", (boundary ? *boundary : sandbox::BoundaryLists{}).to_json()}};
  };
  auto out = co_await on_pool<json::object>(supervisor.loop(), std::move(work));
  if (!out) co_return error_reply(out.error());
  co_return json_reply(*std::move(out));
}

}  // namespace

void add_policy_routes(Router& router, Supervisor& supervisor) {
  router.add({"POST", "/v2/sandboxes/sessions/{id}/network-policy",
              [&supervisor](const Call& call) { return set(supervisor, call); }, kPolicyBody});
  router.add({"GET", "/sallyport/v1/sandboxes/{name}/policy",
              [&supervisor](const Call& call) { return get(supervisor, call); }});
}

}  // namespace sallyport::api
