// SPDX-License-Identifier: Apache-2.0
// `sandbox ls` and `sandbox inspect`.
#include <fmt/format.h>

#include <chrono>

#include "cli/cli.h"
#include "cli/format.h"

namespace sallyport::cli {
namespace {

struct Options {
  bool all = false;
  bool as_json = false;
  std::string prefix;
  std::string sort_by;
  std::string sort_order;
  std::string tag;
  unsigned limit = 0;
  std::string cursor;
};

std::int64_t now_ms() {
  using namespace std::chrono;
  return duration_cast<milliseconds>(system_clock::now().time_since_epoch()).count();
}

std::string network_of(const json::value& sandbox) {
  const auto* policy = member(sandbox, "networkPolicy");
  if (policy == nullptr) return "-";
  const std::string mode = text_member(*policy, "mode", "-");
  return mode == "custom" ? "restricted" : mode;
}

std::string tags_of(const json::value& sandbox) {
  const auto* tags = member(sandbox, "tags");
  std::string text;
  if (tags != nullptr && tags->is_object()) {
    for (const auto& [key, value] : tags->get_object()) {
      text += fmt::format("{}{}={}", text.empty() ? "" : ",", std::string_view(key),
                          text_member(*tags, key));
    }
  }
  return text.empty() ? "-" : printable(text);
}

std::vector<std::string> row(const json::value& sandbox) {
  const auto number = [&](const char* key) {
    const auto value = number_member(sandbox, key, -1);
    return value < 0 ? std::string("-") : std::to_string(value);
  };
  const auto created = number_member(sandbox, "createdAt");
  const auto timeout = number_member(sandbox, "timeout", -1);
  return {printable(text_member(sandbox, "name")),
          printable(text_member(sandbox, "status")),
          created == 0 ? "-" : format_age(created, now_ms()),
          printable(text_member(sandbox, "image", "-")),
          number("vcpus"),
          number("memory") + " MB",
          timeout < 0 ? "-" : format_duration(timeout),
          network_of(sandbox),
          tags_of(sandbox)};
}

std::string list_target(const Options& options, const Session& session, const std::string& cursor) {
  std::string target = fmt::format("/v2/sandboxes?project={}&limit={}", encode(session.project),
                                   options.limit == 0 ? 50 : options.limit);
  const auto add = [&](const char* key, const std::string& value) {
    if (!value.empty()) target += fmt::format("&{}={}", key, encode(value));
  };
  add("namePrefix", options.prefix);
  // The API sorts by name where a prefix is asked for.
  add("sortBy", options.sort_by.empty() && !options.prefix.empty() ? "name" : options.sort_by);
  add("sortOrder", options.sort_order);
  std::string tag = options.tag;
  if (const auto equals = tag.find('='); equals != std::string::npos) tag[equals] = ':';
  add("tags", tag);
  add("cursor", cursor);
  return target;
}

int list(const Options& options, Session& session) {
  const auto client = session.client();
  if (!client) return session.misuse(client.error().message);
  std::vector<std::vector<std::string>> rows = {
      {"NAME", "STATUS", "CREATED", "IMAGE", "VCPUS", "MEMORY", "TIMEOUT", "NETWORK", "TAGS"}};
  json::array shown;
  std::string cursor = options.cursor;
  for (;;) {
    const auto page = client->call("GET", list_target(options, session, cursor));
    if (!page) return session.complain(page.error());
    const auto* sandboxes = member(*page, "sandboxes");
    if (sandboxes == nullptr || !sandboxes->is_array())
      return session.complain({Code::internal, "the API's answer has no sandboxes"});
    for (const auto& sandbox : sandboxes->get_array()) {
      if (!options.all && text_member(sandbox, "status") != "running") continue;
      rows.push_back(row(sandbox));
      shown.push_back(sandbox);
    }
    const auto* pagination = member(*page, "pagination");
    const std::string next =
        pagination == nullptr ? std::string() : text_member(*pagination, "next");
    if (next.empty() || next == cursor) break;
    if (options.limit != 0) {  // one page was asked for
      session.terminal.err << "more with --cursor " << printable(next) << "\n";
      break;
    }
    cursor = next;
  }
  if (options.as_json) {
    print_json(session.terminal.out, shown);
  } else {
    print_table(session.terminal.out, rows);
  }
  return kOk;
}

}  // namespace

Run define_list(CLI::App& app, Session& session) {
  auto options = std::make_shared<Options>();
  app.add_flag("-a,--all", options->all, "Those that are not running too");
  app.add_option("--name-prefix", options->prefix, "Names that begin with this");
  app.add_option("--sort-by", options->sort_by, "createdAt, name or statusUpdatedAt")
      ->check(CLI::IsMember({"createdAt", "name", "statusUpdatedAt"}));
  app.add_option("--sort-order", options->sort_order, "asc or desc")
      ->check(CLI::IsMember({"asc", "desc"}));
  app.add_option("--tag", options->tag, "key=value");
  app.add_option("--limit", options->limit, "One page of at most this many")
      ->check(CLI::Range(1, 50));
  app.add_option("--cursor", options->cursor, "Where the page starts");
  app.add_flag("--json", options->as_json, "As JSON");
  return [options, &session] { return list(*options, session); };
}

Run define_inspect(CLI::App& app, Session& session) {
  auto name = std::make_shared<std::string>();
  app.add_option("name", *name, "The sandbox")->required();
  return [name, &session]() -> int {
    const auto client = session.client();
    if (!client) return session.misuse(client.error().message);
    const auto answer = client->call("GET", "/sallyport/v1/sandboxes/" + encode(*name) +
                                                "?projectId=" + encode(session.project));
    if (!answer) return session.complain(answer.error());
    print_json(session.terminal.out, *answer);
    return kOk;
  };
}

}  // namespace sallyport::cli
