// SPDX-License-Identifier: Apache-2.0
#include "driver/agent_answers.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <string_view>

#include "base/json.h"

namespace sallyport::driver {
namespace {

constexpr std::size_t kMaxJson = 4096;
constexpr std::size_t kMaxMessage = 300;
constexpr int kLastSignal = 64;

std::unexpected<Error> odd() {
  return fail(Code::unavailable, "the agent's answer makes no sense");
}

std::optional<json::object> read_object(std::string_view text) {
  auto value = parse_json(text, {.max_bytes = kMaxJson, .max_depth = 3});
  if (!value || !value->is_object()) return std::nullopt;
  return std::move(value->get_object());
}

std::optional<int> number(const json::object& object, std::string_view name, int min, int max) {
  const auto* value = object.if_contains(name);
  if (value == nullptr || !value->is_int64()) return std::nullopt;
  if (value->get_int64() < min || value->get_int64() > max) return std::nullopt;
  return int(value->get_int64());
}

std::optional<std::string> text(const json::object& object, std::string_view name) {
  const auto* value = object.if_contains(name);
  if (value == nullptr || !value->is_string()) return std::nullopt;
  return std::string(std::string_view(value->get_string()).substr(0, kMaxMessage));
}

// The message may end in a terminal or a log.
std::string printable(std::string message) {
  std::ranges::replace_if(message, [](unsigned char c) { return c < 0x20 || c > 0x7e; }, '?');
  return message;
}

}  // namespace

Result<AgentHealth> read_health(const AgentAnswer& answer) {
  const auto object = answer.status == 200 ? read_object(answer.body) : std::nullopt;
  if (!object) return odd();
  const auto version = text(*object, "agent");
  const auto pid = number(*object, "pid", 1, std::numeric_limits<int>::max());
  if (!version || !pid) return odd();
  return AgentHealth{.version = printable(*version), .pid = *pid};
}

Error read_refusal(const AgentAnswer& answer) {
  std::string message = "the agent refused";
  if (const auto object = read_object(answer.body)) {
    const auto* error = object->if_contains("error");
    const auto said = error != nullptr && error->is_object() ? text(error->get_object(), "message")
                                                             : std::nullopt;
    if (said) message = printable(*said);
  }
  const Code code = answer.status == 404   ? Code::not_found
                    : answer.status == 400 ? Code::invalid
                                           : Code::unavailable;
  return {code, std::move(message)};
}

Result<int> read_started(const guest::Record& record) {
  if (record.type != guest::RecordType::started) return odd();
  const auto object = read_object(as_text(record.payload));
  const auto pid =
      object ? number(*object, "pid", 1, std::numeric_limits<int>::max()) : std::nullopt;
  if (!pid) return odd();
  return *pid;
}

Result<CommandEvent> read_event(const guest::Record& record) {
  using guest::RecordType;
  if (record.type == RecordType::out || record.type == RecordType::err) {
    const auto stream =
        record.type == RecordType::out ? CommandOutput::Stream::out : CommandOutput::Stream::err;
    return CommandOutput{.stream = stream, .bytes = std::string(as_text(record.payload))};
  }
  const auto object =
      record.type == RecordType::exit ? read_object(as_text(record.payload)) : std::nullopt;
  if (!object) return odd();
  if (const auto code = number(*object, "code", 0, 255)) return CommandExit{.code = *code};
  const auto signal = number(*object, "signal", 1, kLastSignal);
  if (!signal) return odd();
  const auto* timed_out = object->if_contains("timed_out");
  return CommandExit{
      .code = 128 + *signal,
      .signal = *signal,
      .timed_out = timed_out != nullptr && timed_out->is_bool() && timed_out->get_bool()};
}

}  // namespace sallyport::driver
