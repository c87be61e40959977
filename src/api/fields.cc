// SPDX-License-Identifier: Apache-2.0
#include "api/fields.h"

#include <fmt/format.h>

namespace sallyport::api {

const json::value* Fields::take(std::string_view key) {
  read_.emplace(key);
  if (error_) return nullptr;
  return object_.if_contains(key);
}

void Fields::refuse(std::string_view key, std::string_view why) {
  if (!error_) error_ = Error{Code::invalid, fmt::format("{}: {}", at(key), why)};
}

std::optional<std::string> Fields::text(std::string_view key, std::size_t max_length) {
  const json::value* found = take(key);
  if (found == nullptr) return std::nullopt;
  if (!found->is_string()) {
    refuse(key, "must be a string");
    return std::nullopt;
  }
  const auto& content = found->get_string();
  if (content.size() > max_length) {
    refuse(key, fmt::format("must have at most {} characters", max_length));
    return std::nullopt;
  }
  if (content.find('\0') != json::string::npos) {
    refuse(key, "must not contain NUL");
    return std::nullopt;
  }
  return std::string(content);
}

std::optional<std::int64_t> Fields::integer(std::string_view key, std::int64_t least,
                                            std::int64_t most) {
  const json::value* found = take(key);
  if (found == nullptr) return std::nullopt;
  std::optional<std::int64_t> number;
  if (found->is_int64()) number = found->get_int64();
  // Some clients write every number as a double; one without a fraction is the integer.
  if (found->is_double()) {
    const double value = found->get_double();
    if (value > -9e15 && value < 9e15 &&
        static_cast<double>(static_cast<std::int64_t>(value)) == value) {
      number = static_cast<std::int64_t>(value);
    }
  }
  if (!number || *number < least || *number > most) {
    refuse(key, fmt::format("must be an integer between {} and {}", least, most));
    return std::nullopt;
  }
  return number;
}

std::optional<bool> Fields::boolean(std::string_view key) {
  const json::value* found = take(key);
  if (found == nullptr) return std::nullopt;
  if (!found->is_bool()) {
    refuse(key, "must be true or false");
    return std::nullopt;
  }
  return found->get_bool();
}

std::optional<std::vector<std::string>> Fields::texts(std::string_view key, std::size_t max_count,
                                                      std::size_t max_length) {
  const json::value* found = take(key);
  if (found == nullptr) return std::nullopt;
  if (!found->is_array() || found->get_array().size() > max_count) {
    refuse(key, fmt::format("must be an array of at most {} strings", max_count));
    return std::nullopt;
  }
  std::vector<std::string> out;
  for (const json::value& each : found->get_array()) {
    if (!each.is_string() || each.get_string().size() > max_length ||
        each.get_string().find('\0') != json::string::npos) {
      const std::string place = json_path_index(key, out.size());
      if (!error_) {
        error_ =
            Error{Code::invalid, fmt::format("{}: must be a string of at most {} bytes without NUL",
                                             json_path_index(at(key), out.size()), max_length)};
      }
      return std::nullopt;
    }
    out.emplace_back(each.get_string());
  }
  return out;
}

std::optional<std::map<std::string, std::string>> Fields::text_map(std::string_view key,
                                                                   std::size_t max_count,
                                                                   std::size_t max_length) {
  const json::value* found = take(key);
  if (found == nullptr) return std::nullopt;
  if (!found->is_object() || found->get_object().size() > max_count) {
    refuse(key, fmt::format("must be an object of at most {} strings", max_count));
    return std::nullopt;
  }
  std::map<std::string, std::string> out;
  for (const auto& [name, each] : found->get_object()) {
    if (!each.is_string() || each.get_string().size() > max_length ||
        each.get_string().find('\0') != json::string::npos) {
      if (!error_) {
        error_ =
            Error{Code::invalid, fmt::format("{}: must be a string of at most {} bytes without NUL",
                                             json_path_key(at(key), name), max_length)};
      }
      return std::nullopt;
    }
    out.emplace(name, each.get_string());
  }
  return out;
}

const json::object* Fields::object(std::string_view key) {
  const json::value* found = take(key);
  if (found == nullptr) return nullptr;
  if (!found->is_object()) {
    refuse(key, "must be an object");
    return nullptr;
  }
  return &found->get_object();
}

const json::value* Fields::value(std::string_view key) { return take(key); }

void Fields::refuse_if_asked(std::string_view key, std::string_view why) {
  const json::value* found = take(key);
  if (found == nullptr || found->is_null()) return;
  if (found->is_bool() && !found->get_bool()) return;
  if (found->is_array() && found->get_array().empty()) return;
  if (found->is_object() && found->get_object().empty()) return;
  refuse(key, why);
}

Result<> Fields::finish() {
  for (const auto& [key, unused] : object_) {
    const std::string_view name = key;
    if (!name.starts_with("__") && !read_.contains(name)) refuse(name, "no such field");
  }
  if (error_) return std::unexpected(*error_);
  return {};
}

Result<json::object> body_object(std::string_view body, std::size_t max_bytes) {
  if (body.find_first_not_of(" \t\r\n") == std::string_view::npos) return json::object();
  auto value = parse_json(body, {.max_bytes = max_bytes, .max_depth = 32});
  if (!value) return fail(Code::invalid, "the body is not JSON: " + value.error().message);
  if (!value->is_object()) return fail(Code::invalid, "$: must be an object");
  return std::move(value->get_object());
}

}  // namespace sallyport::api
