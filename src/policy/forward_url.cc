// SPDX-License-Identifier: Apache-2.0
#include "policy/forward_url.h"

#include <algorithm>
#include <charconv>
#include <string>

#include "base/address.h"
#include "base/host_name.h"
#include "policy/rule_json.h"

namespace sallyport::policy {
namespace {

bool starts_with_ignoring_case(std::string_view text, std::string_view prefix) {
  return text.size() >= prefix.size() &&
         std::ranges::equal(text.substr(0, prefix.size()), prefix, [](char a, char b) {
           return (a >= 'A' && a <= 'Z' ? static_cast<char>(a - 'A' + 'a') : a) == b;
         });
}

bool is_port(std::string_view text) {
  unsigned port = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
  return error == std::errc{} && end == text.data() + text.size() && port >= 1 && port <= 65535;
}

}  // namespace

std::string_view bad_forward_url(std::string_view url) {
  if (url.size() > kMaxForwardUrl) return "is too long";
  if (std::ranges::any_of(url,
                          [](unsigned char c) { return c <= 0x20 || c >= 0x7f || c == '\\'; })) {
    return "must not contain white space, control characters, backslashes or non-ASCII characters";
  }
  constexpr std::string_view kScheme = "https://";
  if (starts_with_ignoring_case(url, "http://")) return "must use https";
  if (!starts_with_ignoring_case(url, kScheme)) return "must be an absolute https URL";
  if (url.find('#') != std::string_view::npos) return "must not have a fragment";
  if (url.find('?') != std::string_view::npos) return "must not have a query string";
  std::string_view authority = url.substr(kScheme.size());
  authority = authority.substr(0, authority.find('/'));
  if (authority.find('@') != std::string_view::npos) return "must not have a user or password";
  constexpr std::string_view kBadHost = "has no valid host";
  std::string_view host = authority;
  std::string_view port;
  if (authority.starts_with('[')) {
    const auto end = authority.find(']');
    if (end == std::string_view::npos) return kBadHost;
    host = authority.substr(1, end - 1);
    port = authority.substr(end + 1);
    if (host.find(':') == std::string_view::npos || !Address::parse(host)) return kBadHost;
  } else {
    const auto colon = authority.find(':');
    host = authority.substr(0, colon);
    if (colon != std::string_view::npos) port = authority.substr(colon);
    if (!normal_host_name(host) && !Address::parse(host)) return kBadHost;
  }
  if (!port.empty() && (port.front() != ':' || !is_port(port.substr(1)))) return "has a bad port";
  return {};
}

}  // namespace sallyport::policy
