// SPDX-License-Identifier: Apache-2.0
#include "policy/match_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/host_name.h"
#include "policy/rule_json.h"

namespace sallyport::policy {
namespace {

std::string_view view(const json::string& text) { return {text.data(), text.size()}; }
std::string_view view(boost::json::string_view text) { return {text.data(), text.size()}; }
json::string text_of(std::string_view text) { return json::string(text.data(), text.size()); }

json::object render_string_match(const StringMatch& match) {
  constexpr std::array<const char*, 3> kKeys = {"exact", "startsWith", "regex"};
  return {{kKeys[static_cast<std::size_t>(match.kind())], text_of(match.text())}};
}

json::array render_key_values(const std::vector<KeyValueMatch>& entries) {
  json::array array;
  for (const KeyValueMatch& entry : entries) {
    json::object object;
    if (entry.key) object["key"] = render_string_match(*entry.key);
    if (entry.value) object["value"] = render_string_match(*entry.value);
    array.push_back(std::move(object));
  }
  return array;
}

Result<StringMatch> string_match(const json::value& value, const std::string& path, CaseRule rule,
                                 RuleBudget& budget) {
  const auto* object = value.if_object();
  constexpr std::string_view kOne = "must have exactly one of exact, startsWith or regex";
  if (object == nullptr) return refuse(path, kOne);
  if (const auto known = only_keys(*object, {"exact", "startsWith", "regex"}, path); !known) {
    return std::unexpected(known.error());
  }
  if (object->size() != 1) return refuse(path, kOne);
  const auto& [key, content] = *object->begin();
  const std::string at = json_path_key(path, view(key));
  const auto* text = content.if_string();
  if (text == nullptr) return refuse(at, "must be a string");
  if (text->size() > kMaxMatchText)
    return refuse(at, fmt::format("at most {} bytes", kMaxMatchText));
  std::string wanted(view(*text));
  if (key == "exact") return StringMatch::exact(std::move(wanted), rule);
  if (key == "startsWith") return StringMatch::starts_with(std::move(wanted), rule);
  if (++budget.regexes > kMaxRegexes)
    return refuse(at, fmt::format("more than {} expressions in one policy", kMaxRegexes));
  auto regex = StringMatch::regex(std::move(wanted), rule);
  if (!regex) return refuse(at, regex.error().message);
  return regex;
}

Result<std::vector<KeyValueMatch>> key_values(const json::value& value, const std::string& path,
                                              CaseRule key_rule, RuleBudget& budget) {
  const auto* entries = value.if_array();
  if (entries == nullptr || entries->empty()) return refuse(path, "must be a non-empty array");
  if (entries->size() > kMaxMatchEntries)
    return refuse(path, fmt::format("at most {} entries", kMaxMatchEntries));
  std::vector<KeyValueMatch> result;
  for (std::size_t i = 0; i < entries->size(); ++i) {
    const std::string at = json_path_index(path, i);
    const auto* entry = (*entries)[i].if_object();
    if (entry == nullptr) return refuse(at, "must be an object with key, value or both");
    if (const auto known = only_keys(*entry, {"key", "value"}, at); !known)
      return std::unexpected(known.error());
    if (entry->empty()) return refuse(at, "must have key, value or both");
    KeyValueMatch match;
    if (const auto* key = entry->if_contains("key")) {
      auto compiled = string_match(*key, at + ".key", key_rule, budget);
      if (!compiled) return std::unexpected(compiled.error());
      match.key = *std::move(compiled);
    }
    if (const auto* wanted = entry->if_contains("value")) {
      auto compiled = string_match(*wanted, at + ".value", CaseRule::sensitive, budget);
      if (!compiled) return std::unexpected(compiled.error());
      match.value = *std::move(compiled);
    }
    result.push_back(std::move(match));
  }
  return result;
}

Result<std::vector<std::string>> methods_from_json(const json::value& value,
                                                   const std::string& path) {
  const auto* entries = value.if_array();
  if (entries == nullptr || entries->empty())
    return refuse(path, "must be a non-empty array of HTTP methods");
  if (entries->size() > kMaxMatchEntries)
    return refuse(path, fmt::format("at most {} entries", kMaxMatchEntries));
  std::vector<std::string> methods;
  for (std::size_t i = 0; i < entries->size(); ++i) {
    const auto* text = (*entries)[i].if_string();
    if (text == nullptr || !is_token(view(*text)) || text->size() > kMaxHeaderName) {
      return refuse(json_path_index(path, i), "not an HTTP method");
    }
    methods.emplace_back(view(*text));
  }
  return methods;
}

}  // namespace

Result<RequestMatch> match_from_json(const json::value& value, const std::string& path,
                                     RuleBudget& budget) {
  const auto* object = value.if_object();
  if (object == nullptr) return refuse(path, "must be an object");
  if (object->empty())
    return refuse(path, "must not be empty; leave it out to match every request");
  if (const auto known = only_keys(*object, {"path", "method", "queryString", "headers"}, path);
      !known) {
    return std::unexpected(known.error());
  }
  RequestMatch match;
  if (const auto* given = object->if_contains("path")) {
    auto compiled = string_match(*given, path + ".path", CaseRule::sensitive, budget);
    if (!compiled) return std::unexpected(compiled.error());
    match.path = *std::move(compiled);
  }
  if (const auto* given = object->if_contains("method")) {
    auto methods = methods_from_json(*given, path + ".method");
    if (!methods) return std::unexpected(methods.error());
    match.method = *std::move(methods);
  }
  if (const auto* given = object->if_contains("queryString")) {
    auto entries = key_values(*given, path + ".queryString", CaseRule::sensitive, budget);
    if (!entries) return std::unexpected(entries.error());
    match.query = *std::move(entries);
  }
  if (const auto* given = object->if_contains("headers")) {
    auto entries = key_values(*given, path + ".headers", CaseRule::insensitive, budget);
    if (!entries) return std::unexpected(entries.error());
    match.headers = *std::move(entries);
  }
  return match;
}

json::value render_match(const RequestMatch& match) {
  json::object object;
  if (match.path) object["path"] = render_string_match(*match.path);
  if (!match.method.empty()) {
    json::array methods;
    for (const std::string& method : match.method) methods.push_back(text_of(method));
    object["method"] = std::move(methods);
  }
  if (!match.query.empty()) object["queryString"] = render_key_values(match.query);
  if (!match.headers.empty()) object["headers"] = render_key_values(match.headers);
  return object;
}

bool is_token(std::string_view text) {
  static constexpr std::string_view kOther = "!#$%&'*+-.^_`|~";
  return !text.empty() && std::ranges::all_of(text, [](char c) {
    return (c >= '0' && c <= '9') || (ascii_lower(c) >= 'a' && ascii_lower(c) <= 'z') ||
           kOther.find(c) != std::string_view::npos;
  });
}

}  // namespace sallyport::policy
