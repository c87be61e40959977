// SPDX-License-Identifier: Apache-2.0
#include "policy/domain_pattern.h"

#include <fmt/format.h>
#include <idn2.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "base/address.h"
#include "base/host_name.h"

namespace sallyport::policy {
namespace {

bool is_name_byte(char c) {
  return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
}

std::string_view last_label(std::string_view name) {
  const auto dot = name.rfind('.');
  return dot == std::string_view::npos ? name : name.substr(dot + 1);
}

std::vector<std::string_view> split(std::string_view text) {
  std::vector<std::string_view> labels;
  for (;;) {
    const auto dot = text.find('.');
    labels.push_back(text.substr(0, dot));
    if (dot == std::string_view::npos) return labels;
    text.remove_prefix(dot + 1);
  }
}

bool is_ascii(std::string_view text) {
  return std::ranges::all_of(text, [](char c) { return static_cast<unsigned char>(c) < 0x80; });
}

Result<std::string> to_a_label(std::string_view label) {
  const std::string input(label);
  char* raw = nullptr;
  const int code = idn2_to_ascii_8z(input.c_str(), &raw, IDN2_NFC_INPUT | IDN2_NONTRANSITIONAL);
  const std::unique_ptr<char, void (*)(void*)> output(raw, idn2_free);
  if (code != IDN2_OK) {
    return fail(Code::invalid,
                fmt::format("a label cannot be written in ASCII: {}", idn2_strerror(code)));
  }
  return std::string(output.get());
}

// What a user is likely to have meant instead; nothing for a clean pattern.
std::string_view misuse(std::string_view text) {
  if (text.empty()) return "is empty";
  if (text.find("://") != std::string_view::npos) return "must be a host name, without a scheme";
  if (text.find('\0') != std::string_view::npos) return "must not contain NUL";
  if (std::ranges::any_of(text, [](unsigned char c) { return c <= 0x20 || c == 0x7f; })) {
    return "must not contain white space or control characters";
  }
  if (text.find('/') != std::string_view::npos) return "must be a host name, without a path";
  if (Address::parse(text) || (text.front() == '[' && text.back() == ']')) {
    return "is an IP address; use subnets.allow for addresses";
  }
  if (text.find(':') != std::string_view::npos) return "must be a host name, without a port";
  return {};
}

}  // namespace

Result<std::string> parse_domain_pattern(std::string_view text) {
  if (text.size() > 4 * kMaxHostName)
    return fail(Code::invalid, fmt::format("is longer than {} bytes", kMaxHostName));
  if (const std::string_view reason = misuse(text); !reason.empty())
    return fail(Code::invalid, std::string(reason));
  if (text.ends_with('.')) text.remove_suffix(1);
  std::string normal;
  normal.reserve(text.size());
  for (const std::string_view label : split(text)) {
    if (!normal.empty()) normal.push_back('.');
    if (label.empty()) return fail(Code::invalid, "has an empty label");
    if (label == "*") {
      normal.push_back('*');
      continue;
    }
    if (label.find('*') != std::string_view::npos)
      return fail(Code::invalid, "a wildcard must be a whole label");
    std::string converted;
    if (!is_ascii(label)) {
      auto a_label = to_a_label(label);
      if (!a_label) return std::unexpected(a_label.error());
      converted = std::move(*a_label);
    }
    const std::string_view ascii = converted.empty() ? label : std::string_view(converted);
    if (ascii.size() > kMaxLabel)
      return fail(Code::invalid, fmt::format("has a label longer than {} bytes", kMaxLabel));
    for (const char c : ascii) {
      if (!is_name_byte(ascii_lower(c))) {
        return fail(Code::invalid,
                    "may contain only letters, digits, hyphens, underscores, dots and whole-label "
                    "wildcards");
      }
      normal.push_back(ascii_lower(c));
    }
  }
  if (normal.size() > kMaxHostName)
    return fail(Code::invalid, fmt::format("is longer than {} bytes", kMaxHostName));
  // All that a single well-formed label can still be refused for.
  if (last_label(normal) != "*" && !normal_host_name(last_label(normal))) {
    return fail(Code::invalid,
                "is an IP address or ends in a number; use subnets.allow for addresses");
  }
  return normal;
}

bool pattern_matches(std::string_view pattern, std::string_view name) {
  if (pattern.find('*') == std::string_view::npos) return pattern == name;
  // From the right, label by label; a first-label star takes whatever is left, at least one label.
  for (;;) {
    if (pattern == "*") return !name.empty();
    const auto pattern_dot = pattern.rfind('.');
    const auto name_dot = name.rfind('.');
    const std::string_view wanted = last_label(pattern);
    if (name.empty() || (wanted != "*" && wanted != last_label(name))) return false;
    const bool pattern_ends = pattern_dot == std::string_view::npos;
    const bool name_ends = name_dot == std::string_view::npos;
    if (pattern_ends || name_ends) return pattern_ends && name_ends;
    pattern = pattern.substr(0, pattern_dot);
    name = name.substr(0, name_dot);
  }
}

}  // namespace sallyport::policy
