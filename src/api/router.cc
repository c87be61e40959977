// SPDX-License-Identifier: Apache-2.0
#include "api/router.h"

#include <algorithm>

namespace sallyport::api {
namespace {

std::vector<std::string> split(std::string_view path) {
  std::vector<std::string> segments;
  while (!path.empty()) {
    if (path.front() != '/') return {};
    path.remove_prefix(1);
    const std::size_t end = std::min(path.find('/'), path.size());
    segments.emplace_back(path.substr(0, end));
    path.remove_prefix(end);
  }
  return segments;
}

bool is_param(std::string_view segment) { return segment.starts_with('{'); }

}  // namespace

void Router::add(Route route) {
  Row row{std::move(route), {}};
  row.segments = split(row.route.pattern);
  rows_.push_back(std::move(row));
}

Router::Found Router::find(std::string_view method, std::string_view path) const {
  if (path.starts_with("/api/")) path.remove_prefix(4);
  const std::vector<std::string> segments = split(path);
  Found found;
  for (const Row& row : rows_) {
    if (row.segments.size() != segments.size()) continue;
    std::map<std::string, std::string> params;
    bool fits = true;
    for (std::size_t i = 0; i < segments.size() && fits; ++i) {
      if (!is_param(row.segments[i])) {
        fits = row.segments[i] == segments[i];
        continue;
      }
      auto value = percent_decode(segments[i], false);
      fits = value.has_value() && !value->empty();
      if (fits) params[row.segments[i].substr(1, row.segments[i].size() - 2)] = *std::move(value);
    }
    if (!fits) continue;
    if (row.route.method != method) {
      found.other_method = true;
      continue;
    }
    found.route = &row.route;
    found.params = std::move(params);
    return found;
  }
  return found;
}

std::vector<std::pair<std::string, std::string>> Router::table() const {
  std::vector<std::pair<std::string, std::string>> out;
  for (const Row& row : rows_) out.emplace_back(row.route.method, row.route.pattern);
  return out;
}

std::optional<Target> parse_target(std::string_view target) {
  if (!target.starts_with('/')) return std::nullopt;
  // RFC 3986: whatever is not printable ASCII is percent-encoded.
  if (std::ranges::any_of(target, [](char c) { return c <= ' ' || c >= 0x7f; }))
    return std::nullopt;
  Target out;
  const std::size_t mark = target.find('?');
  out.path = target.substr(0, mark);
  if (mark == std::string_view::npos) return out;
  std::string_view rest = target.substr(mark + 1);
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find('&'), rest.size());
    const std::string_view pair = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    if (pair.empty()) continue;
    const std::size_t equals = std::min(pair.find('='), pair.size());
    auto key = percent_decode(pair.substr(0, equals), true);
    auto value = percent_decode(equals < pair.size() ? pair.substr(equals + 1) : "", true);
    if (!key || !value) return std::nullopt;
    out.query.emplace_back(*std::move(key), *std::move(value));
  }
  return out;
}

}  // namespace sallyport::api
