// SPDX-License-Identifier: Apache-2.0
// `sandbox image build|ls|rm`: the base images of the node.
#include <fmt/format.h>

#include <chrono>

#include "cli/cli.h"
#include "cli/format.h"

namespace sallyport::cli {
namespace {

constexpr const char* kImages = "/sallyport/v1/images";
constexpr const char* kDefaultName = "base";

std::int64_t now_ms() {
  using namespace std::chrono;
  return duration_cast<milliseconds>(system_clock::now().time_since_epoch()).count();
}

int list_images(const Client& client, Session& session, bool as_json) {
  const auto answer = client.call("GET", kImages);
  if (!answer) return session.complain(answer.error());
  const auto* images = member(*answer, "images");
  if (images == nullptr || !images->is_array())
    return session.complain({Code::internal, "the API's answer has no images"});
  if (as_json) {
    print_json(session.terminal.out, *images);
    return kOk;
  }
  std::vector<std::vector<std::string>> rows = {{"NAME", "SIZE", "CREATED", "DIGEST"}};
  for (const auto& image : images->get_array()) {
    const auto size = number_member(image, "sizeBytes", -1);
    const auto created = number_member(image, "createdAt");
    rows.push_back({printable(text_member(image, "name")),
                    size < 0 ? "-" : format_size(static_cast<std::uint64_t>(size)),
                    created == 0 ? "-" : format_age(created, now_ms()),
                    printable(text_member(image, "digest", "-").substr(0, 19))});
  }
  print_table(session.terminal.out, rows);
  return kOk;
}

int build_image(const Client& client, Session& session, const std::string& name) {
  std::optional<Error> failure;
  std::string built;
  const auto on_line = [&](std::string_view line) {
    const auto record = parse_json(line, {.max_bytes = kMaxLine});
    if (!record) {
      failure = Error{Code::internal, "the API's answer: " + record.error().message};
      return false;
    }
    if (const auto* error = member(*record, "error")) {
      failure =
          Error{Code::internal, text_member(*error, "message", "the image could not be built")};
      return false;
    }
    if (const auto* image = member(*record, "image")) built = text_member(*image, "name");
    if (member(*record, "progress") != nullptr)
      session.terminal.err << printable(text_member(*record, "progress")) << std::endl;
    return true;
  };
  if (auto streamed =
          client.stream("POST", kImages, json::value(json::object{{"name", name}}), on_line);
      !streamed) {
    return session.complain(streamed.error());
  }
  if (failure) return session.complain(*failure);
  if (built.empty())
    return session.complain({Code::unavailable, "the connection ended before the image was built"});
  session.terminal.out << printable(built) << "\n";
  return kOk;
}

}  // namespace

Run define_image(CLI::App& app, Session& session) {
  struct Options {
    std::string build = kDefaultName;
    std::vector<std::string> remove;
    bool as_json = false;
    CLI::App* building = nullptr;
    CLI::App* listing = nullptr;
  };
  auto options = std::make_shared<Options>();
  app.require_subcommand(1);
  options->building = app.add_subcommand(
      "build", "Build a base image (once; takes a few minutes and needs a Debian mirror)");
  options->building->add_option("name", options->build, "Its name")->capture_default_str();
  options->listing = app.add_subcommand("ls", "List base images")->alias("list");
  options->listing->add_flag("--json", options->as_json, "As JSON");
  CLI::App* removing = app.add_subcommand("rm", "Delete base images")->alias("remove");
  removing->add_option("name", options->remove, "One or more images")->required();
  return [options, &session]() -> int {
    const auto client = session.client();
    if (!client) return session.misuse(client.error().message);
    if (options->listing->parsed()) return list_images(*client, session, options->as_json);
    if (options->building->parsed()) return build_image(*client, session, options->build);
    int status = kOk;
    for (const std::string& name : options->remove) {
      if (const auto removed = client->call("DELETE", std::string(kImages) + "/" + encode(name));
          !removed) {
        session.terminal.err << "sandbox: " << removed.error().message << "\n";
        status = kFailed;
      } else {
        session.terminal.out << printable(name) << "\n";
      }
    }
    return status;
  };
}

}  // namespace sallyport::cli
