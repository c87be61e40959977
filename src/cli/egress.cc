// SPDX-License-Identifier: Apache-2.0
// `sandbox egress NAME`: the egress log (docs/egress-log.md) for people, or as it is with --json.
#include <fmt/format.h>

#include "cli/cli.h"
#include "cli/format.h"

namespace sallyport::cli {
namespace {

struct Options {
  std::string name;
  bool follow = false;
  bool denied = false;
  bool as_json = false;
};

// "2026-11-30T23:04:05.123Z" to "23:04:05".
std::string clock_of(const std::string& time) {
  const auto at = time.find('T');
  return at == std::string::npos ? time : time.substr(at + 1, 8);
}

// Where it went, in words: the name and the address it was dialled at, as far as there are any.
std::string target_of(const json::value& line) {
  const std::string name = text_member(line, "name");
  const std::string destination = text_member(line, "destination");
  if (name.empty()) return destination.empty() ? "-" : destination;
  const std::string protocol = text_member(line, "protocol");
  if (protocol == "dns" || destination.empty()) return name;
  const auto port = destination.rfind(':');
  return port == std::string::npos ? name : name + destination.substr(port);
}

std::string outcome_of(const json::value& line) {
  std::string text = text_member(line, "reason");
  if (const std::string entry = text_member(line, "entry"); !entry.empty())
    text += fmt::format(" ({})", entry);
  if (const std::string detail = text_member(line, "detail"); !detail.empty())
    text += ": " + detail;
  return text;
}

std::string traffic_of(const json::value& line) {
  if (text_member(line, "verdict") != "allow") return "-";
  const auto bytes = [&](const char* key) {
    return format_size(
        static_cast<std::uint64_t>(std::max<std::int64_t>(0, number_member(line, key))));
  };
  return fmt::format("{} up, {} down, {}", bytes("bytes_up"), bytes("bytes_down"),
                     format_duration(number_member(line, "duration_ms")));
}

// Fixed widths, because lines of a followed log come one by one.
void print_row(std::ostream& out, const std::string& time, const std::string& verdict,
               const std::string& protocol, const std::string& target, const std::string& traffic,
               const std::string& why) {
  std::string row = fmt::format("{:<8}  {:<7}  {:<8}  {:<38}  {:<34}  {}", time, verdict, protocol,
                                target, traffic, why);
  out << printable(row) << "\n";
}

int show(const Options& options, Session& session) {
  const auto client = session.client();
  if (!client) return session.misuse(client.error().message);
  std::ostream& out = session.terminal.out;
  std::string target = fmt::format("/sallyport/v1/sandboxes/{}/egress?projectId={}",
                                   encode(options.name), encode(session.project));
  if (options.follow) target += "&follow=true";
  if (options.denied) target += "&denied=true";
  bool header = false;
  const auto on_line = [&](std::string_view raw) {
    if (options.as_json) {
      out << raw << "\n";
    } else {
      const auto line = parse_json(raw, {.max_bytes = kMaxLine});
      if (!line) {
        session.terminal.err << "sandbox: a line of the log cannot be read: "
                             << line.error().message << "\n";
        return true;
      }
      if (!std::exchange(header, true))
        print_row(out, "TIME", "VERDICT", "PROTOCOL", "TARGET", "TRAFFIC", "WHY");
      print_row(out, clock_of(text_member(*line, "time")), text_member(*line, "verdict"),
                text_member(*line, "protocol"), target_of(*line), traffic_of(*line),
                outcome_of(*line));
    }
    if (options.follow) out.flush();
    return out.good();  // a closed pipe ends it
  };
  if (auto streamed = client->stream("GET", target, std::nullopt, on_line); !streamed)
    return session.complain(streamed.error());
  if (!header && !options.as_json) session.terminal.err << "nothing in the log\n";
  return kOk;
}

}  // namespace

Run define_egress(CLI::App& app, Session& session) {
  auto options = std::make_shared<Options>();
  app.add_option("name", options->name, "The sandbox")->required();
  app.add_flag("-f,--follow", options->follow, "Go on as new lines come");
  app.add_flag("--denied", options->denied, "Only what was refused");
  app.add_flag("--json", options->as_json, "The lines as they are, one JSON object each");
  return [options, &session] { return show(*options, session); };
}

}  // namespace sallyport::cli
