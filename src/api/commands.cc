// SPDX-License-Identifier: Apache-2.0
// sessions/{id}/cmd: start, wait, read logs, kill (spec/api.md 1.6). Streams are lines of JSON with
// everything beyond ASCII escaped, because clients decode each network chunk on its own; a
// character never spans two lines.
#include <fmt/format.h>

#include <filesystem>

#include "api/await.h"
#include "api/fields.h"
#include "api/render.h"
#include "api/resources.h"
#include "api/utf8.h"

namespace sallyport::api {
namespace {

using sandbox::Command;
using sandbox::Spool;
using sandbox::Supervisor;
using CommandPtr = std::shared_ptr<Command>;

// A blank line now and then: clients skip it, and writing it is how we notice that they are gone.
constexpr std::chrono::seconds kKeepAlive{15};

struct CommandBody {
  std::string command;
  std::vector<std::string> args;
  std::optional<std::string> cwd;
  std::map<std::string, std::string> env;
  bool sudo = false;
  bool wait = false;
  bool logs = false;
  std::chrono::milliseconds timeout{0};
};

Result<CommandBody> parse_command(const Call& call) {
  const auto body = body_object(call.body, kSmallBody);
  if (!body) return std::unexpected(body.error());
  Fields fields(*body, "$");
  CommandBody out;
  out.command = fields.text("command", 4096).value_or("");
  if (out.command.empty())
    fields.refuse("command", "is required: the name or path of an executable");
  out.args = fields.texts("args", 4096, 128U << 10).value_or(std::vector<std::string>());
  out.cwd = fields.text("cwd", 4096);
  out.env = fields.text_map("env", 1024, 128U << 10).value_or(std::map<std::string, std::string>());
  for (const auto& [key, value] : out.env) {
    if (key.empty() || key.find('=') != std::string::npos)
      fields.refuse("env", fmt::format("'{}' is no name of a variable", key));
  }
  out.sudo = fields.boolean("sudo").value_or(false);
  out.wait = fields.boolean("wait").value_or(call.query_value("wait") == "true");
  const auto logs = fields.boolean("logs");
  if (logs.value_or(false) && !out.wait) fields.refuse("logs", "only together with wait");
  out.logs = logs.value_or(out.wait);
  out.timeout =
      std::chrono::milliseconds(fields.integer("timeout", 100, 7LL * 24 * 3600 * 1000).value_or(0));
  if (auto done = fields.finish(); !done) return std::unexpected(done.error());
  return out;
}

// Image and sandbox variables below, the command's own above.
Result<std::map<std::string, std::string>> environment_of(Supervisor& supervisor,
                                                          const store::SandboxKey& key) {
  const auto stored = supervisor.store().environment(key);
  if (!stored) return std::unexpected(stored.error());
  const auto value = parse_json(stored->reveal(), {.max_bytes = 256U << 20, .max_depth = 4});
  if (!value || !value->is_object())
    return fail(Code::internal, "the stored environment cannot be read");
  std::map<std::string, std::string> env;
  for (const auto& [name, text] : value->get_object()) {
    if (text.is_string()) env[name] = text.get_string();
  }
  return env;
}

sandbox::CommandRequest to_request(CommandBody body, std::map<std::string, std::string> env,
                                   const std::string& session_cwd) {
  sandbox::CommandRequest out;
  namespace fs = std::filesystem;
  out.cwd = (fs::path(session_cwd) / fs::path(body.cwd.value_or(""))).lexically_normal().string();
  if (out.cwd.size() > 1 && out.cwd.ends_with('/')) out.cwd.pop_back();
  out.name = body.command;
  out.args = body.args;
  if (body.sudo) {
    env["USER"] = "root";
    env["LOGNAME"] = "root";
    env["HOME"] = "/root";
    env["SUDO_USER"] = "ubuntu";
  }
  for (auto& [name, value] : body.env) env[name] = std::move(value);
  out.process = {.command = std::move(body.command),
                 .args = std::move(body.args),
                 .cwd = out.cwd,
                 .env = std::move(env),
                 .user = body.sudo ? "root" : "ubuntu",
                 .timeout = body.timeout};
  return out;
}

std::string line(const json::value& value) { return serialize_ascii(value) + "\n"; }

std::string stream_line(sandbox::Output stream, const std::string& text) {
  return line({{"stream", stream == sandbox::Output::out ? "stdout" : "stderr"}, {"data", text}});
}

std::string error_line(std::string_view code, std::string_view message) {
  return line({{"stream", "error"}, {"data", {{"code", code}, {"message", message}}}});
}

// Everything the command prints, from the beginning to its end. False: the client is gone.
asio::awaitable<bool> send_output(CommandPtr command, Output& output) {
  auto wakeup = std::make_shared<Wakeup>(co_await asio::this_coro::executor);
  Spool::Reader reader(command->spool(), [wakeup] { wakeup->wake(); });
  if (reader.missed() && !co_await output.write(error_line(
                             "output_truncated", "The beginning of the output was not kept."))) {
    co_return false;
  }
  Utf8Stream out, err;
  while (true) {
    auto chunk = reader.next();
    if (!chunk) {
      co_return (co_await output.write(error_line("internal_error", chunk.error().message)))
              .has_value() &&
          false;
    }
    if (*chunk) {
      Utf8Stream& text = (*chunk)->stream == sandbox::Output::out ? out : err;
      const std::string piece = text.push(as_bytes((*chunk)->bytes));
      if (!piece.empty() && !co_await output.write(stream_line((*chunk)->stream, piece)))
        co_return false;
      continue;
    }
    if (reader.ended()) break;
    if (!co_await wakeup->wait(kKeepAlive) && !co_await output.write("\n")) co_return false;
  }
  const std::string out_rest = out.finish();
  if (!out_rest.empty() && !co_await output.write(stream_line(sandbox::Output::out, out_rest)))
    co_return false;
  const std::string err_rest = err.finish();
  if (!err_rest.empty() && !co_await output.write(stream_line(sandbox::Output::err, err_rest)))
    co_return false;
  co_return true;
}

// Waits for the end without sending output. False: the client is gone.
asio::awaitable<bool> wait_for_end(CommandPtr command, Output& output) {
  auto wakeup = std::make_shared<Wakeup>(co_await asio::this_coro::executor);
  Spool::Reader reader(command->spool(), [wakeup] { wakeup->wake(); });
  while (!command->ended()) {
    reader.skip();  // whoever only waits does not hold the command back
    if (!co_await wakeup->wait(kKeepAlive) && !co_await output.write("\n")) co_return false;
  }
  co_return true;
}

// As it was when it was spawned. It may have ended already, but the first record never says so.
json::object render_started(const Command& command) {
  store::CommandRecord record = command.record();
  record.exit_code.reset();
  record.duration.reset();
  return render_command(record);
}

asio::awaitable<void> send_waiting(CommandPtr command, bool logs, Output& output) {
  if (!co_await output.write(line({{"command", render_started(*command)}}))) co_return;
  const bool there =
      logs ? co_await send_output(command, output) : co_await wait_for_end(command, output);
  if (!there) co_return;
  const std::string last =
      command->lost() ? error_line("sandbox_stream_closed",
                                   "Sandbox stream was closed and is not accepting commands.")
                      : line({{"command", render_command(command->record())}});
  (void)co_await output.write(last);
}

asio::awaitable<void> send_logs(CommandPtr command, Output& output) {
  if (!co_await send_output(command, output)) co_return;
  if (command->lost()) {
    const std::string last = error_line("sandbox_stream_closed",
                                        "Sandbox stream was closed and is not accepting commands.");
    (void)co_await output.write(last);
  }
}

asio::awaitable<void> send_end(CommandPtr command, Output& output) {
  if (!co_await wait_for_end(command, output)) co_return;
  const json::value body =
      command->lost()
          ? error_reply(410, "sandbox_stopped", "The sandbox stopped before the command ended.")
                .body
          : json::value{{"command", render_command(command->record())}};
  (void)co_await output.write(serialize_ascii(body));
}

asio::awaitable<Reply> start(Supervisor& supervisor, const Call& call) {
  const auto known = co_await visible_session(supervisor, call);
  if (!known) co_return error_reply(known.error());
  if (auto refused = refuse_unless_running(known->session)) co_return *std::move(refused);
  auto body = parse_command(call);
  if (!body) co_return error_reply(body.error());
  const bool wait = body->wait;
  const bool logs = body->logs;
  auto read_env = [&supervisor, key = known->sandbox.key] {
    return environment_of(supervisor, key);
  };
  auto env =
      co_await on_pool<std::map<std::string, std::string>>(supervisor.loop(), std::move(read_env));
  if (!env) co_return error_reply(env.error());
  auto agent = supervisor.agent(known->session.id);
  if (!agent) co_return co_await conflict_reply(supervisor, known->session.id, agent.error());

  auto begin = [&supervisor, id = known->session.id, agent = *agent,
                request = to_request(*std::move(body), *std::move(env), known->session.cwd)](
                   auto done) mutable {
    supervisor.commands().start(id, std::move(agent), std::move(request), std::move(done));
  };
  const auto command = co_await answer_of<CommandPtr>(std::move(begin));
  if (!command) {
    if (command.error().code == Code::not_found)
      co_return error_reply(400, "executable_not_found", command.error().message);
    if (command.error().code == Code::unavailable) {
      // Most often the agent went because the sandbox is stopping.
      const Error conflict{Code::conflict, command.error().message};
      Reply reply = co_await conflict_reply(supervisor, known->session.id, conflict);
      co_return reply.status == 409 ? error_reply(command.error()) : std::move(reply);
    }
    co_return error_reply(command.error());
  }
  if (!wait) co_return json_reply({{"command", render_started(**command)}});
  Reply reply;
  reply.content_type = kNdjson;
  reply.stream = [command = *command, logs](Output& output) {
    return send_waiting(command, logs, output);
  };
  co_return reply;
}

asio::awaitable<Reply> list(Supervisor& supervisor, const Call& call) {
  const auto known = co_await visible_session(supervisor, call);
  if (!known) co_return error_reply(known.error());
  auto work = [&supervisor, id = known->session.id] { return supervisor.store().commands(id); };
  const auto stored =
      co_await on_pool<std::vector<store::CommandRecord>>(supervisor.loop(), std::move(work));
  if (!stored) co_return error_reply(stored.error());
  json::array commands;
  for (const store::CommandRecord& each : *stored) {
    const CommandPtr fresher = supervisor.commands().find(each.session, each.id);
    commands.push_back(render_command(fresher ? fresher->record() : each));
  }
  co_return json_reply({{"commands", std::move(commands)}});
}

struct FoundCommand {
  CommandPtr running;  // may be null
  store::CommandRecord record;
  store::SessionRecord session;
};

asio::awaitable<Result<FoundCommand>> find(Supervisor& supervisor, const Call& call) {
  const auto known = co_await visible_session(supervisor, call);
  if (!known) co_return std::unexpected(known.error());
  const std::string id = call.param("command");
  if (CommandPtr command = supervisor.commands().find(known->session.id, id)) {
    FoundCommand found{command, command->record(), known->session};
    co_return found;
  }
  auto work = [&supervisor, session = known->session.id, id] {
    return supervisor.store().command(session, id);
  };
  auto record = co_await on_pool<store::CommandRecord>(supervisor.loop(), std::move(work));
  if (!record) co_return std::unexpected(record.error());
  FoundCommand found{nullptr, *std::move(record), known->session};
  co_return found;
}

Reply gone() {
  return error_reply(
      410, "sandbox_stopped",
      "The end of this command is not known: the sandbox stopped, or the daemon was restarted.");
}

asio::awaitable<Reply> get(Supervisor& supervisor, const Call& call) {
  const auto found = co_await find(supervisor, call);
  if (!found) co_return error_reply(found.error());
  const bool wait = call.query_value("wait") == "true";
  if (!wait || found->record.exit_code)
    co_return json_reply({{"command", render_command(found->record)}});
  if (!found->running || found->running->lost()) co_return gone();
  Reply reply;  // JSON may begin with white space, so the header can leave before clients lose
                // patience
  reply.stream = [command = found->running](Output& output) { return send_end(command, output); };
  co_return reply;
}

asio::awaitable<Reply> logs(Supervisor& supervisor, const Call& call) {
  const auto found = co_await find(supervisor, call);
  if (!found) co_return error_reply(found.error());
  if (!found->running)
    co_return error_reply(410, "sandbox_stopped",
                          "The output of this command is not kept any more.");
  Reply reply;
  reply.content_type = kNdjson;
  reply.stream = [command = found->running](Output& output) { return send_logs(command, output); };
  co_return reply;
}

asio::awaitable<Reply> kill(Supervisor& supervisor, const Call& call) {
  const auto body = body_object(call.body, kSmallBody);
  if (!body) co_return error_reply(body.error());
  Fields fields(*body, "$");
  const int signal = static_cast<int>(fields.integer("signal", 1, 64).value_or(15));
  if (const auto done = fields.finish(); !done) co_return error_reply(done.error());
  const auto found = co_await find(supervisor, call);
  if (!found) co_return error_reply(found.error());
  if (found->running && !found->running->ended()) {
    const auto agent = supervisor.agent(found->session.id);
    if (!agent) co_return co_await conflict_reply(supervisor, found->session.id, agent.error());
    auto start_kill = [agent = *agent, pid = found->running->pid(), signal](auto done) {
      agent->kill(pid, signal, std::move(done));
    };
    const auto done = co_await answer_of<void>(std::move(start_kill));
    // Not found: it ended while we asked, which is what was wanted.
    if (!done && done.error().code != Code::not_found) co_return error_reply(done.error());
  }
  co_return json_reply(
      {{"command", render_command(found->running ? found->running->record() : found->record)}});
}

}  // namespace

void add_command_routes(Router& router, Supervisor& supervisor) {
  const std::string base = "/v2/sandboxes/sessions/{id}/cmd";
  router.add({"POST", base, [&supervisor](const Call& call) { return start(supervisor, call); }});
  router.add({"GET", base, [&supervisor](const Call& call) { return list(supervisor, call); }});
  router.add({"GET", base + "/{command}",
              [&supervisor](const Call& call) { return get(supervisor, call); }});
  router.add({"GET", base + "/{command}/logs",
              [&supervisor](const Call& call) { return logs(supervisor, call); }});
  router.add({"POST", base + "/{command}/kill",
              [&supervisor](const Call& call) { return kill(supervisor, call); }});
}

}  // namespace sallyport::api
