// SPDX-License-Identifier: Apache-2.0
#include "guest/start_request.h"

#include <boost/json/serialize.hpp>
#include <boost/json/value_from.hpp>

#include "base/json.h"

namespace sallyport::guest {
namespace {

std::unexpected<Error> wrong(std::string_view field, std::string_view what) {
  return fail(Code::invalid, "$." + std::string(field) + ": " + std::string(what));
}

// Arguments and variables become C strings: a NUL would cut them short unseen.
Result<std::string> c_string(const json::value& value, std::string_view field) {
  if (!value.is_string()) return wrong(field, "must be a string");
  const auto& text = value.get_string();
  if (text.find('\0') != json::string::npos) return wrong(field, "must not contain NUL");
  return std::string(text);
}

Result<> read_args(const json::value& value, StartRequest& request) {
  if (!value.is_array()) return wrong("args", "must be an array");
  for (const auto& item : value.get_array()) {
    auto text = c_string(item, "args");
    if (!text) return std::unexpected(text.error());
    request.args.push_back(std::move(*text));
  }
  return {};
}

Result<> read_env(const json::value& value, StartRequest& request) {
  if (!value.is_object()) return wrong("env", "must be an object");
  for (const auto& [key, item] : value.get_object()) {
    const std::string name(key);
    if (name.empty() || name.find_first_of(std::string_view("=\0", 2)) != std::string::npos) {
      return wrong("env", "a name must be non-empty, without '=' and NUL");
    }
    auto text = c_string(item, "env");
    if (!text) return std::unexpected(text.error());
    request.env.emplace_back(name, std::move(*text));
  }
  return {};
}

Result<> read_field(std::string_view key, const json::value& value, StartRequest& request) {
  if (key == "args") return read_args(value, request);
  if (key == "env") return read_env(value, request);
  if (key == "timeout_ms") {
    if (!value.is_int64() || value.get_int64() < 0)
      return wrong(key, "must be a whole number >= 0");
    request.timeout_ms = std::uint64_t(value.get_int64());
    return {};
  }
  std::string* target = key == "command" ? &request.command
                        : key == "cwd"   ? &request.cwd
                        : key == "user"  ? &request.user
                                         : nullptr;
  if (target == nullptr) return wrong(key, "unknown field");
  auto text = c_string(value, key);
  if (!text) return std::unexpected(text.error());
  *target = std::move(*text);
  return {};
}

}  // namespace

std::string render_start_request(const StartRequest& request) {
  json::object env;
  for (const auto& [name, value] : request.env) env[name] = value;
  return json::serialize(json::object{{"command", request.command},
                                      {"args", json::value_from(request.args)},
                                      {"cwd", request.cwd},
                                      {"env", std::move(env)},
                                      {"user", request.user},
                                      {"timeout_ms", request.timeout_ms}});
}

Result<StartRequest> parse_start_request(std::string_view body) {
  const auto value = parse_json(body, {.max_bytes = kMaxStartRequest, .max_depth = 3});
  if (!value) return std::unexpected(value.error());
  if (!value->is_object()) return fail(Code::invalid, "$: must be an object");
  StartRequest request;
  for (const auto& [key, item] : value->get_object()) {
    if (auto read = read_field(std::string_view(key), item, request); !read) {
      return std::unexpected(read.error());
    }
  }
  if (request.command.empty()) return wrong("command", "must not be empty");
  return request;
}

}  // namespace sallyport::guest
