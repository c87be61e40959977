// SPDX-License-Identifier: Apache-2.0
#include "base/host_name.h"

#include <algorithm>

namespace sallyport {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_hex(char c) { return is_digit(c) || (c >= 'a' && c <= 'f'); }

// The WHATWG rule "ends in a number": getaddrinfo and browsers read 127.1, 0x7f.0.0.1 or 2130706433
// as addresses, so such a text must never be compared with domain patterns. No top-level domain
// looks like that.
bool is_number(std::string_view label) {
  if (label.starts_with("0x")) return std::ranges::all_of(label.substr(2), is_hex);
  return std::ranges::all_of(label, is_digit);
}

bool is_name_byte(char c) { return (c >= 'a' && c <= 'z') || is_digit(c) || c == '-' || c == '_'; }

}  // namespace

std::optional<std::string> normal_host_name(std::string_view text) {
  if (text.ends_with('.')) text.remove_suffix(1);
  if (text.empty() || text.size() > kMaxHostName) return std::nullopt;
  std::string name(text);
  std::size_t label_start = 0;
  for (std::size_t i = 0; i < name.size(); ++i) {
    name[i] = ascii_lower(name[i]);
    if (name[i] == '.') {
      if (i == label_start || i - label_start > kMaxLabel) return std::nullopt;
      label_start = i + 1;
    } else if (!is_name_byte(name[i])) {
      return std::nullopt;
    }
  }
  const std::string_view last = std::string_view(name).substr(label_start);
  if (last.empty() || last.size() > kMaxLabel || is_number(last)) return std::nullopt;
  return name;
}

}  // namespace sallyport
