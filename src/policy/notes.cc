// SPDX-License-Identifier: Apache-2.0
#include "policy/notes.h"

#include <fmt/format.h>

namespace sallyport::policy {
namespace {

constexpr std::size_t kMaxNotes = 20;

void note_paths(const DomainEntry& domain, std::vector<std::string>& out) {
  for (std::size_t i = 0; i < domain.rules.size(); ++i) {
    const auto& match = domain.rules[i].match;
    if (i + 1 < domain.rules.size() && !match) {
      out.push_back(fmt::format("{}: rule {} has no match, so the rules after it never apply",
                                domain.pattern, i));
    }
    if (!match || !match->path) continue;
    const StringMatch& path = *match->path;
    if (path.kind() == StringMatch::Kind::starts_with && !path.text().ends_with('/')) {
      out.push_back(
          fmt::format("{}: rule {}: startsWith \"{}\" also matches \"{}-anything\"; end it with / "
                      "or use a regex",
                      domain.pattern, i, path.text(), path.text()));
    }
    if (path.kind() == StringMatch::Kind::regex && !path.text().starts_with('^')) {
      out.push_back(
          fmt::format("{}: rule {}: the expression \"{}\" may match anywhere in the path; anchor "
                      "it with ^ and $",
                      domain.pattern, i, path.text()));
    }
    if (path.kind() == StringMatch::Kind::exact && path.text().find('?') != std::string::npos) {
      out.push_back(
          fmt::format("{}: rule {}: a path is compared without its query, so \"{}\" never matches",
                      domain.pattern, i, path.text()));
    }
  }
}

}  // namespace

std::vector<std::string> notes(const Policy& policy) {
  std::vector<std::string> out;
  if (policy.mode != Mode::custom) return out;
  if (policy.denies_everything()) {
    out.emplace_back("nothing is allowed, so everything is denied, DNS included");
    return out;
  }
  if (policy.domain_index.catch_all()) {
    out.emplace_back(
        "\"*\" also admits TCP connections without a readable name, such as SSH and plain HTTP");
  }
  if (!policy.domains.empty() && !policy.allowed.empty()) {
    out.emplace_back(
        "connections to allowed ranges pass whatever name they carry, and no rules apply to them");
  }
  if (policy.domains.empty()) out.emplace_back("only ranges are allowed, so every name resolves");
  for (const DomainEntry& domain : policy.domains) {
    if (out.size() >= kMaxNotes) break;
    if (domain.pattern.starts_with("*.") && domain.pattern.find('*', 1) == std::string::npos &&
        !policy.domain_index.find(std::string_view(domain.pattern).substr(2))) {
      out.push_back(
          fmt::format("{} does not admit {} itself", domain.pattern, domain.pattern.substr(2)));
    }
    note_paths(domain, out);
  }
  if (out.size() > kMaxNotes) out.resize(kMaxNotes);
  return out;
}

}  // namespace sallyport::policy
