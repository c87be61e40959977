// SPDX-License-Identifier: Apache-2.0
#include "policy/rule_json.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/host_name.h"
#include "policy/forward_url.h"
#include "policy/match_json.h"

namespace sallyport::policy {
namespace {

std::string lowered(std::string_view text) {
  std::string out(text);
  std::ranges::transform(out, out.begin(), ascii_lower);
  return out;
}

std::string_view view(const json::string& text) { return {text.data(), text.size()}; }
std::string_view view(boost::json::string_view text) { return {text.data(), text.size()}; }

enum class Setter { transform, response };

// Framing and hop-by-hop fields belong to the firewall's own connections.
bool is_reserved(std::string_view name, Setter setter) {
  const std::string key = lowered(name);
  if (key == "connection" || key == "content-length" || key == "transfer-encoding") return true;
  if (setter == Setter::response) return false;
  return key == "keep-alive" || key == "upgrade" || key == "te" || key == "trailer" ||
         key.starts_with("proxy-");
}

std::string_view bad_header_value(std::string_view value) {
  if (value == kRedacted)
    return "is the placeholder of a policy that was read back; send the secret again";
  if (value.size() > kMaxHeaderValue) return "is too long";
  for (const char c : value) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte == '\r' || byte == '\n' || byte == 0) return "must not contain CR, LF or NUL";
    if ((byte < 0x20 && byte != '\t') || byte == 0x7f) return "must not contain control characters";
  }
  const auto blank = [](char c) { return c == ' ' || c == '\t'; };
  if (!value.empty() && (blank(value.front()) || blank(value.back()))) {
    return "must not begin or end with white space";
  }
  return {};
}

Result<std::vector<HeaderValue>> headers_from_json(const json::value& value,
                                                   const std::string& path, Setter setter) {
  const auto* object = value.if_object();
  if (object == nullptr) return refuse(path, "must be an object of header names and values");
  if (object->size() > kMaxRuleHeaders)
    return refuse(path, fmt::format("at most {} headers", kMaxRuleHeaders));
  std::vector<HeaderValue> headers;
  std::vector<std::string> seen;
  for (const auto& [key, content] : *object) {
    const std::string_view name = view(key);
    const std::string at = json_path_key(path, name);
    if (!is_token(name)) return refuse(at, "not a header name (RFC 9110 token)");
    if (name.size() > kMaxHeaderName)
      return refuse(path, fmt::format("a header name is longer than {}", kMaxHeaderName));
    if (is_reserved(name, setter)) return refuse(at, "this header is set by the firewall itself");
    if (std::ranges::find(seen, lowered(name)) != seen.end()) {
      return refuse(at, "the same header twice (names do not depend on case)");
    }
    seen.push_back(lowered(name));
    const auto* text = content.if_string();
    if (text == nullptr) return refuse(at, "must be a string");
    if (const auto reason = bad_header_value(view(*text)); !reason.empty())
      return refuse(at, reason);
    headers.push_back({std::string(name), Secret(view(*text))});
  }
  return headers;
}

// D-12: transform objects apply in order, the later wins.
void merge(std::vector<HeaderValue>& into, std::vector<HeaderValue> from) {
  for (HeaderValue& header : from) {
    const auto same = std::ranges::find_if(into, [&](const HeaderValue& other) {
      return lowered(other.name) == lowered(header.name);
    });
    if (same == into.end()) {
      into.push_back(std::move(header));
    } else {
      *same = std::move(header);
    }
  }
}

Result<Transform> transform_from_json(const json::value& value, const std::string& path) {
  const auto* entries = value.if_array();
  if (entries == nullptr || entries->empty())
    return refuse(path, "must be a non-empty array of objects with headers");
  if (entries->size() > kMaxRuleHeaders)
    return refuse(path, fmt::format("at most {} entries", kMaxRuleHeaders));
  Transform transform;
  for (std::size_t i = 0; i < entries->size(); ++i) {
    const std::string at = json_path_index(path, i);
    const auto* entry = (*entries)[i].if_object();
    if (entry == nullptr) return refuse(at, "must be an object with headers");
    if (const auto known = only_keys(*entry, {"headers"}, at); !known)
      return std::unexpected(known.error());
    const auto* given = entry->if_contains("headers");
    if (given == nullptr) return refuse(at, "has no headers");
    auto headers = headers_from_json(*given, at + ".headers", Setter::transform);
    if (!headers) return std::unexpected(headers.error());
    if (headers->empty()) return refuse(at + ".headers", "must name at least one header");
    merge(transform.headers, *std::move(headers));
  }
  if (transform.headers.size() > kMaxRuleHeaders)
    return refuse(path, fmt::format("at most {} headers", kMaxRuleHeaders));
  return transform;
}

Result<Response> response_from_json(const json::value& value, const std::string& path) {
  const auto* object = value.if_object();
  if (object == nullptr) return refuse(path, "must be an object");
  if (const auto known = only_keys(*object, {"statusCode", "headers", "body", "contentType"}, path);
      !known) {
    return std::unexpected(known.error());
  }
  Response response;
  const auto* status = object->if_contains("statusCode");
  if (status == nullptr || !status->is_int64() || status->get_int64() < 200 ||
      status->get_int64() > 599) {
    return refuse(path + ".statusCode", "must be an integer from 200 to 599");
  }
  response.status = static_cast<int>(status->get_int64());
  if (const auto* given = object->if_contains("headers")) {
    auto headers = headers_from_json(*given, path + ".headers", Setter::response);
    if (!headers) return std::unexpected(headers.error());
    response.headers = *std::move(headers);
  }
  if (const auto* body = object->if_contains("body")) {
    if (!body->is_string()) return refuse(path + ".body", "must be a string");
    response.body = std::string(view(body->get_string()));
    if (response.body->size() > kMaxResponseBody) {
      return refuse(path + ".body", fmt::format("at most {} bytes", kMaxResponseBody));
    }
  }
  if (const auto* type = object->if_contains("contentType")) {
    if (!type->is_string() || type->get_string().empty())
      return refuse(path + ".contentType", "must be a non-empty string");
    response.content_type = std::string(view(type->get_string()));
    if (const auto reason = bad_header_value(*response.content_type); !reason.empty()) {
      return refuse(path + ".contentType", reason);
    }
  }
  const bool bodiless = response.status == 204 || response.status == 205 || response.status == 304;
  if (response.body && bodiless)
    return refuse(path + ".body", fmt::format("status {} has no body", response.status));
  if (response.body && !response.content_type) return refuse(path, "a body needs a contentType");
  return response;
}

Result<std::optional<RequestMatch>> optional_match(const json::object& object,
                                                   const std::string& path, RuleBudget& budget) {
  const auto* given = object.if_contains("match");
  if (given == nullptr) return std::nullopt;
  auto match = match_from_json(*given, path + ".match", budget);
  if (!match) return std::unexpected(match.error());
  return *std::move(match);
}

Result<Rule> rule_from_json(const json::value& value, const std::string& path, RuleBudget& budget) {
  const auto* object = value.if_object();
  if (object == nullptr) return refuse(path, "a rule must be an object");
  if (const auto known = only_keys(*object, {"match", "transform", "forwardURL", "response"}, path);
      !known) {
    return std::unexpected(known.error());
  }
  const auto* transform = object->if_contains("transform");
  const auto* forward = object->if_contains("forwardURL");
  const auto* response = object->if_contains("response");
  const int actions = (transform != nullptr) + (forward != nullptr) + (response != nullptr);
  if (actions != 1) {
    return refuse(path, actions == 0
                            ? "a rule needs one of transform, forwardURL or response"
                            : "a rule may have only one of transform, forwardURL or response");
  }
  auto match = optional_match(*object, path, budget);
  if (!match) return std::unexpected(match.error());
  Rule rule;
  rule.match = *std::move(match);
  if (transform != nullptr) {
    auto action = transform_from_json(*transform, path + ".transform");
    if (!action) return std::unexpected(action.error());
    rule.action = *std::move(action);
  } else if (forward != nullptr) {
    const std::string at = path + ".forwardURL";
    const auto* url = forward->if_string();
    if (url == nullptr) return refuse(at, "must be a string");
    if (const auto reason = bad_forward_url(view(*url)); !reason.empty()) return refuse(at, reason);
    rule.action = Forward{std::string(view(*url))};
  } else {
    auto action = response_from_json(*response, path + ".response");
    if (!action) return std::unexpected(action.error());
    rule.action = *std::move(action);
  }
  return rule;
}

json::string text_of(std::string_view text) { return json::string(text.data(), text.size()); }

json::object render_headers(const std::vector<HeaderValue>& headers, Secrets secrets) {
  json::object object;
  for (const HeaderValue& header : headers) {
    object[header.name] = text_of(secrets == Secrets::revealed ? header.value.reveal() : kRedacted);
  }
  return object;
}

}  // namespace

std::unexpected<Error> refuse(std::string_view path, std::string_view reason) {
  constexpr std::size_t kMaxPath = 600;
  if (path.size() <= kMaxPath) return fail(Code::invalid, fmt::format("{}: {}", path, reason));
  return fail(Code::invalid, fmt::format("{}...: {}", path.substr(0, kMaxPath), reason));
}

Result<> only_keys(const json::object& object, std::initializer_list<std::string_view> known,
                   std::string_view path) {
  for (const auto& [key, value] : object) {
    if (std::ranges::find(known, view(key)) == known.end()) {
      return refuse(json_path_key(path, view(key).substr(0, 300)),
                    fmt::format("not known here; known are {}", fmt::join(known, ", ")));
    }
  }
  return {};
}

Result<std::vector<Rule>> rules_from_json(const json::array& rules, const std::string& path,
                                          RuleBudget& budget) {
  std::vector<Rule> result;
  result.reserve(rules.size());
  for (std::size_t i = 0; i < rules.size(); ++i) {
    auto rule = rule_from_json(rules[i], json_path_index(path, i), budget);
    if (!rule) return std::unexpected(rule.error());
    result.push_back(*std::move(rule));
  }
  return result;
}

Result<Rule> injection_from_json(const json::object& entry, const std::string& path,
                                 RuleBudget& budget) {
  const auto* given = entry.if_contains("headers");
  if (given == nullptr) return refuse(path, "has no headers");
  auto headers = headers_from_json(*given, path + ".headers", Setter::transform);
  if (!headers) return std::unexpected(headers.error());
  if (headers->empty()) return refuse(path + ".headers", "must name at least one header");
  auto match = optional_match(entry, path, budget);
  if (!match) return std::unexpected(match.error());
  Rule rule;
  rule.match = *std::move(match);
  rule.action = Transform{*std::move(headers)};
  return rule;
}

json::value render_rule(const Rule& rule, Secrets secrets) {
  json::object object;
  if (rule.match) object["match"] = render_match(*rule.match);
  if (const auto* transform = std::get_if<Transform>(&rule.action)) {
    object["transform"] =
        json::array{json::object{{"headers", render_headers(transform->headers, secrets)}}};
  } else if (const auto* forward = std::get_if<Forward>(&rule.action)) {
    object["forwardURL"] = text_of(forward->url);
  } else {
    const auto& response = std::get<Response>(rule.action);
    json::object answer{{"statusCode", response.status}};
    if (!response.headers.empty()) answer["headers"] = render_headers(response.headers, secrets);
    if (response.body) answer["body"] = text_of(*response.body);
    if (response.content_type) answer["contentType"] = text_of(*response.content_type);
    object["response"] = std::move(answer);
  }
  return object;
}

}  // namespace sallyport::policy
