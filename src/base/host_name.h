// SPDX-License-Identifier: Apache-2.0
// What counts as a host name on the wire, decided once for SNI, DNS and policies (D-03).
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace sallyport {

inline constexpr std::size_t kMaxHostName = 253;
inline constexpr std::size_t kMaxLabel = 63;

// The normal form of a name read from a peer: lower case, one trailing dot dropped. Nothing if it
// is empty, over 253 bytes, has an empty label or one over 63 bytes, holds anything but letters,
// digits, hyphen and underscore (so no NUL, space or non-ASCII byte), or could be taken for an IP
// address: its last label is a number in decimal or 0x form.
[[nodiscard]] std::optional<std::string> normal_host_name(std::string_view text);

// Lower-case of ASCII letters only, whatever the locale.
[[nodiscard]] constexpr char ascii_lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
}

}  // namespace sallyport
