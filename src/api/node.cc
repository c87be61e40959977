// SPDX-License-Identifier: Apache-2.0
// /sallyport/v1: what only this server has. Health, and what an operator asks about one sandbox.
#include "api/await.h"
#include "api/render.h"
#include "api/resources.h"

namespace sallyport::api {
namespace {

using sandbox::Details;
using sandbox::Supervisor;

asio::awaitable<Reply> health(Supervisor& supervisor) {
  co_return json_reply({{"status", "ok"}, {"sandboxes", supervisor.live_count()}});
}

// What a new sandbox would be judged by, so that `policy explain FILE` need not guess.
asio::awaitable<Reply> boundary(Supervisor& supervisor, const Call& call) {
  const auto lists =
      sandbox::boundary_for(supervisor.settings().boundary, call.query_value("networkId"));
  if (!lists) co_return error_reply(lists.error());
  co_return json_reply({{"boundary", lists->to_json()}});
}

asio::awaitable<Reply> inspect(Supervisor& supervisor, const Call& call) {
  const auto view = co_await visible_sandbox(supervisor, call);
  if (!view) co_return error_reply(view.error());
  json::object out = render_view(*view);
  auto start = [&supervisor, id = view->session.id](auto done) {
    supervisor.details(id, std::move(done));
  };
  const auto details = co_await answer_of<Details>(std::move(start));
  if (details && !call.principal.team) {  // processes and paths of the node are its operator's
    out["node"] = json::object{{"isolation", details->isolation},
                               {"slot", details->slot},
                               {"initPid", details->init_pid},
                               {"workerPid", details->worker_pid},
                               {"policyVersion", details->policy_version},
                               {"boundary", details->boundary.to_json()},
                               {"stateDir", details->state_dir}};
  }
  co_return json_reply(std::move(out));
}

}  // namespace

void add_node_routes(Router& router, Supervisor& supervisor) {
  router.add(
      {"GET", "/sallyport/v1/health", [&supervisor](const Call&) { return health(supervisor); }});
  router.add({"GET", "/sallyport/v1/boundary",
              [&supervisor](const Call& call) { return boundary(supervisor, call); }});
  router.add({"GET", "/sallyport/v1/sandboxes/{name}",
              [&supervisor](const Call& call) { return inspect(supervisor, call); }});
}

}  // namespace sallyport::api
