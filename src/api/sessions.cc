// SPDX-License-Identifier: Apache-2.0
// /v2/sandboxes/sessions: list, get, stop, extend-timeout (spec/api.md 1.5).
#include "api/await.h"
#include "api/fields.h"
#include "api/render.h"
#include "api/resources.h"

namespace sallyport::api {
namespace {

using sandbox::Supervisor;
using sandbox::View;

asio::awaitable<Reply> list(Supervisor& supervisor, const Call& call) {
  store::SessionFilter filter{call.principal.team, call.query_value("project"),
                              call.query_value("name")};
  store::Page page;
  if (const auto parsed = parse_page(call, page); !parsed) co_return error_reply(parsed.error());
  auto work = [&supervisor, filter, page]() -> Result<json::object> {
    const auto found = supervisor.store().sessions(filter, page);
    if (!found) return std::unexpected(found.error());
    json::array sessions;
    for (const store::SessionRecord& each : found->items) {
      const auto policy = supervisor.store().policy(each.sandbox);
      sessions.push_back(render_session(each, policy ? policy->response : json::value()));
    }
    const std::size_t count = sessions.size();
    return json::object{{"sessions", std::move(sessions)},
                        {"pagination", render_pagination(count, found->next)}};
  };
  auto out = co_await on_pool<json::object>(supervisor.loop(), std::move(work));
  if (!out) co_return error_reply(out.error());
  co_return json_reply(*std::move(out));
}

asio::awaitable<Reply> get(Supervisor& supervisor, const Call& call) {
  const auto view = co_await visible_session(supervisor, call);
  if (!view) co_return error_reply(view.error());
  co_return json_reply(
      {{"session", render_session(view->session, view->policy)}, {"routes", json::array()}});
}

asio::awaitable<Reply> stop(Supervisor& supervisor, const Call& call) {
  const auto known = co_await visible_session(supervisor, call);
  if (!known) co_return error_reply(known.error());
  auto start = [&supervisor, id = known->session.id](auto done) {
    supervisor.stop(id, std::move(done));
  };
  const auto view = co_await answer_of<View>(std::move(start));
  if (!view) co_return error_reply(view.error());
  co_return json_reply({{"session", render_session(view->session, view->policy)},
                        {"sandbox", render_sandbox(view->sandbox, view->policy)}});
}

asio::awaitable<Reply> extend(Supervisor& supervisor, const Call& call) {
  const auto body = body_object(call.body, kSmallBody);
  if (!body) co_return error_reply(body.error());
  Fields fields(*body, "$");
  const auto duration = fields.integer("duration", 1000, 365LL * 24 * 3600 * 1000);
  if (!duration) fields.refuse("duration", "is required");
  if (const auto done = fields.finish(); !done) co_return error_reply(done.error());
  const auto known = co_await visible_session(supervisor, call);
  if (!known) co_return error_reply(known.error());
  if (auto refused = refuse_unless_running(known->session)) co_return *std::move(refused);
  auto start = [&supervisor, id = known->session.id, by = *duration](auto done) {
    supervisor.extend(id, by, std::move(done));
  };
  const auto view = co_await answer_of<View>(std::move(start));
  if (view) co_return json_reply({{"session", render_session(view->session, view->policy)}});
  if (view.error().code == Code::invalid)
    co_return error_reply(400, "sandbox_timeout_invalid", view.error().message);
  co_return co_await conflict_reply(supervisor, known->session.id, view.error());
}

}  // namespace

void add_session_routes(Router& router, Supervisor& supervisor) {
  router.add({"GET", "/v2/sandboxes/sessions",
              [&supervisor](const Call& call) { return list(supervisor, call); }});
  router.add({"GET", "/v2/sandboxes/sessions/{id}",
              [&supervisor](const Call& call) { return get(supervisor, call); }});
  router.add({"POST", "/v2/sandboxes/sessions/{id}/stop",
              [&supervisor](const Call& call) { return stop(supervisor, call); }});
  router.add({"POST", "/v2/sandboxes/sessions/{id}/extend-timeout",
              [&supervisor](const Call& call) { return extend(supervisor, call); }});
}

}  // namespace sallyport::api
