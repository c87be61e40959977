// SPDX-License-Identifier: Apache-2.0
// /sallyport/v1/images: the base images of this node. Building one takes a minute, so the answer is
// a stream of lines. Images belong to the node: only callers without a team may change them.
#include <deque>

#include "api/await.h"
#include "api/fields.h"
#include "api/resources.h"

namespace sallyport::api {
namespace {

using sandbox::Image;
using sandbox::Supervisor;

json::object render(const Image& image) {
  return {{"name", image.name},
          {"digest", image.digest},
          {"sizeBytes", image.size},
          {"createdAt", image.created_ms}};
}

asio::awaitable<Reply> list(Supervisor& supervisor) {
  auto work = [&supervisor] { return supervisor.images().list(); };
  const auto images = co_await on_pool<std::vector<Image>>(supervisor.loop(), std::move(work));
  if (!images) co_return error_reply(images.error());
  json::array out;
  for (const Image& image : *images) out.push_back(render(image));
  co_return json_reply({{"images", std::move(out)}});
}

// Progress travels from the pool to the loop as lines; the stream's end is the build's.
struct Build {
  explicit Build(asio::any_io_executor executor) : wakeup(std::move(executor)) {}
  Wakeup wakeup;
  std::deque<std::string> lines;
  bool ended = false;
};

asio::awaitable<void> send_build(Supervisor& supervisor, std::string name, Output& output) {
  auto build = std::make_shared<Build>(co_await asio::this_coro::executor);
  supervisor.loop().offload([&supervisor, build, name] {
    const auto say = [&supervisor, build](const json::value& value, bool last) {
      supervisor.loop().post([build, text = serialize_ascii(value) + "\n", last] {
        build->lines.push_back(text);
        build->ended = last;
        build->wakeup.wake();
      });
    };
    const auto image = supervisor.images().build(
        name, [&](const std::string& progress) { say({{"progress", progress}}, false); });
    if (image)
      say({{"image", render(*image)}}, true);
    else
      say(error_reply(image.error()).body, true);
  });
  while (true) {
    while (!build->lines.empty()) {
      const std::string text = std::move(build->lines.front());
      build->lines.pop_front();
      if (!co_await output.write(text)) co_return;  // the build goes on without its watcher
    }
    if (build->ended) co_return;
    if (!co_await build->wakeup.wait(std::chrono::seconds(15)) && !co_await output.write("\n"))
      co_return;
  }
}

asio::awaitable<Reply> build(Supervisor& supervisor, const Call& call) {
  if (call.principal.team)
    co_return error_reply(403, "forbidden", "Images are changed by the node's operator.");
  const auto body = body_object(call.body, kSmallBody);
  if (!body) co_return error_reply(body.error());
  Fields fields(*body, "$");
  const std::string name = fields.text("name", 63).value_or("");
  if (const auto done = fields.finish(); !done) co_return error_reply(done.error());
  Reply reply;
  reply.content_type = kNdjson;
  reply.stream = [&supervisor, name](Output& output) {
    return send_build(supervisor, name, output);
  };
  co_return reply;
}

asio::awaitable<Reply> remove(Supervisor& supervisor, const Call& call) {
  if (call.principal.team)
    co_return error_reply(403, "forbidden", "Images are changed by the node's operator.");
  auto work = [&supervisor, name = call.param("name")] { return supervisor.images().remove(name); };
  const auto done = co_await on_pool<void>(supervisor.loop(), std::move(work));
  if (!done) co_return error_reply(done.error());
  co_return json_reply(json::object());
}

}  // namespace

void add_image_routes(Router& router, Supervisor& supervisor) {
  router.add(
      {"GET", "/sallyport/v1/images", [&supervisor](const Call&) { return list(supervisor); }});
  router.add({"POST", "/sallyport/v1/images",
              [&supervisor](const Call& call) { return build(supervisor, call); }});
  router.add({"DELETE", "/sallyport/v1/images/{name}",
              [&supervisor](const Call& call) { return remove(supervisor, call); }});
}

}  // namespace sallyport::api
