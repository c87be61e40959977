// SPDX-License-Identifier: Apache-2.0
// /v2/sandboxes and /v3/sandboxes: create, get, list, delete (spec/api.md 1.4).
#include <fmt/format.h>

#include <charconv>

#include "api/await.h"
#include "api/create_request.h"
#include "api/fields.h"
#include "api/render.h"
#include "api/resources.h"

namespace sallyport::api {
namespace {

using sandbox::Supervisor;
using sandbox::View;

// Where the clients expect the port of the terminal service; they refuse an answer without one when
// they said they might want a terminal.
constexpr int kInteractivePort = 26661;

asio::awaitable<Reply> create(Supervisor& supervisor, const Call& call) {
  const auto body = body_object(call.body, kPolicyBody);
  if (!body) co_return error_reply(body.error());
  auto parsed = parse_create(*body, call.principal, supervisor.settings().longest_timeout);
  if (!parsed) co_return error_reply(parsed.error());
  auto start = [&supervisor, request = std::move(parsed->request)](auto done) mutable {
    supervisor.create(std::move(request), std::move(done));
  };
  const auto view = co_await answer_of<View>(std::move(start));
  if (!view) {
    Error error = view.error();
    if (error.code == Code::not_found) error = {Code::invalid, "$.image: " + error.message};
    co_return error_reply(error);
  }
  json::object out = render_view(*view);
  if (parsed->interactive) out["session"].as_object()["interactivePort"] = kInteractivePort;
  co_return json_reply(std::move(out));
}

// `resume=true` starts a stopped sandbox again from its snapshot. There are no snapshots yet, so a
// stopped sandbox is one that cannot resume; one that is stopping is waited for first, as clients
// expect.
asio::awaitable<Reply> get(Supervisor& supervisor, const Call& call) {
  auto view = co_await visible_sandbox(supervisor, call);
  if (!view) co_return error_reply(view.error());
  if (call.query_value("resume") == "true" && view->session.status != "running") {
    if (view->session.status == "stopping" || view->session.status == "snapshotting") {
      auto start = [&supervisor, id = view->session.id](auto done) {
        supervisor.stop(id, std::move(done));
      };
      if (const auto stopped = co_await answer_of<View>(std::move(start)); !stopped)
        co_return error_reply(stopped.error());
    }
    if (view->session.status != "pending") {
      co_return error_reply(410, "snapshot_not_found",
                            "Cannot resume sandbox: no snapshot available.");
    }
  }
  co_return json_reply(render_view(*view));
}

asio::awaitable<Reply> remove(Supervisor& supervisor, const Call& call) {
  const auto known = co_await visible_sandbox(supervisor, call);
  if (!known) co_return error_reply(known.error());
  auto start = [&supervisor, key = known->sandbox.key](auto done) {
    supervisor.remove(key, std::move(done));
  };
  const auto last = co_await answer_of<View>(std::move(start));
  if (!last) co_return error_reply(last.error());
  co_return json_reply({{"sandbox", render_sandbox(last->sandbox, last->policy)}});
}

struct ListQuery {
  store::SandboxFilter filter;
  store::Page page;
};

Result<ListQuery> parse_list(const Call& call) {
  ListQuery out;
  out.filter.team = call.principal.team;
  out.filter.project = call.query_value("project");
  if (!out.filter.project) out.filter.project = call.query_value("projectId");
  if (auto done = parse_page(call, out.page); !done) return std::unexpected(done.error());
  using Sort = store::SandboxFilter::Sort;
  const std::string sort = call.query_value("sortBy").value_or("createdAt");
  if (sort == "createdAt" || sort == "currentSnapshotId")
    out.filter.sort = Sort::created_at;
  else if (sort == "name")
    out.filter.sort = Sort::name;
  else if (sort == "statusUpdatedAt")
    out.filter.sort = Sort::status_updated_at;
  else
    return fail(Code::invalid, "sortBy: must be createdAt, name or statusUpdatedAt");
  out.filter.name_prefix = call.query_value("namePrefix");
  if (out.filter.name_prefix && sort != "name")
    return fail(Code::invalid, "namePrefix: only with sortBy=name");
  if (auto status = call.query_value("status")) {
    if (!sandbox::state_from(*status)) return fail(Code::invalid, "status: no such status");
    if (sort != "createdAt") return fail(Code::invalid, "status: only with sortBy=createdAt");
    out.filter.status = *std::move(status);
  }
  for (const auto& [key, value] : call.query) {
    if (key != "tags" || value.empty()) continue;
    const std::size_t colon = value.find(':');
    if (colon == std::string::npos) return fail(Code::invalid, "tags: must be key:value");
    if (out.filter.tag) return fail(Code::invalid, "tags: at most one");
    out.filter.tag = {value.substr(0, colon), value.substr(colon + 1)};
  }
  return out;
}

asio::awaitable<Reply> list(Supervisor& supervisor, const Call& call) {
  const auto query = parse_list(call);
  if (!query) co_return error_reply(query.error());
  auto work = [&supervisor, query = *query]() -> Result<json::object> {
    const auto page = supervisor.store().sandboxes(query.filter, query.page);
    if (!page) return std::unexpected(page.error());
    json::array sandboxes;
    for (const store::SandboxRecord& each : page->items) {
      const auto policy = supervisor.store().policy(each.key);
      sandboxes.push_back(render_sandbox(each, policy ? policy->response : json::value()));
    }
    const std::size_t count = sandboxes.size();
    return json::object{{"sandboxes", std::move(sandboxes)},
                        {"pagination", render_pagination(count, page->next)}};
  };
  auto out = co_await on_pool<json::object>(supervisor.loop(), std::move(work));
  if (!out) co_return error_reply(out.error());
  co_return json_reply(*std::move(out));
}

}  // namespace

Result<> parse_page(const Call& call, store::Page& page) {
  if (const auto limit = call.query_value("limit")) {
    unsigned value = 0;
    const auto [end, error] = std::from_chars(limit->data(), limit->data() + limit->size(), value);
    if (error != std::errc() || end != limit->data() + limit->size() || value < 1 || value > 50) {
      return fail(Code::invalid, "limit: must be an integer between 1 and 50");
    }
    page.limit = value;
  }
  const std::string order = call.query_value("sortOrder").value_or("desc");
  if (order != "asc" && order != "desc")
    return fail(Code::invalid, "sortOrder: must be asc or desc");
  page.descending = order == "desc";
  page.cursor = call.query_value("cursor").value_or("");
  return {};
}

void add_sandbox_routes(Router& router, Supervisor& supervisor) {
  const auto creates = [&supervisor](const Call& call) { return create(supervisor, call); };
  for (const char* path : {"/v3/sandboxes", "/v2/sandboxes", "/v4/sandboxes"}) {
    router.add({"POST", path, creates, kPolicyBody});
  }
  router.add(
      {"GET", "/v2/sandboxes", [&supervisor](const Call& call) { return list(supervisor, call); }});
  router.add({"GET", "/v2/sandboxes/{name}",
              [&supervisor](const Call& call) { return get(supervisor, call); }});
  router.add({"DELETE", "/v2/sandboxes/{name}",
              [&supervisor](const Call& call) { return remove(supervisor, call); }});
}

}  // namespace sallyport::api
