// SPDX-License-Identifier: Apache-2.0
// Writes DNS messages byte by byte, well formed and not.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "support/hello.h"  // u8, u16, with_u16

namespace sallyport::test {

// "00 0029 04d0" as bytes; blanks are for the reader.
inline std::string hex(std::string_view text) {
  std::string out;
  int high = -1;
  for (const char c : text) {
    if (c == ' ') continue;
    const int digit = c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10;
    if (high < 0) {
      high = digit;
    } else {
      out += static_cast<char>(high << 4 | digit);
      high = -1;
    }
  }
  return out;
}

// "a.example" in wire form.
inline std::string dns_name(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const std::string_view label = text.substr(0, text.find('.'));
    out += with_u8(label);
    text.remove_prefix(std::min(text.size(), label.size() + 1));
  }
  return out + '\0';
}

inline std::string dns_record(std::string_view owner_wire, std::size_t type, std::size_t ttl,
                              std::string_view data) {
  return std::string(owner_wire) + u16(type) + u16(1) + u16(ttl >> 16) + u16(ttl) + with_u16(data);
}

// An answer as an upstream sends it.
struct DnsAnswer {
  std::string name;  // text
  std::size_t type = 1;
  std::size_t flags = 0x8180;
  std::string answers{};
  std::string authority{};
  std::string additional{};
  std::size_t answer_count = 0;
  std::size_t authority_count = 0;
  std::size_t additional_count = 0;

  DnsAnswer& answer(std::string_view record) {
    answers += record;
    ++answer_count;
    return *this;
  }
  DnsAnswer& more_authority(std::string_view record) {
    authority += record;
    ++authority_count;
    return *this;
  }
  DnsAnswer& more(std::string_view record) {
    additional += record;
    ++additional_count;
    return *this;
  }
  [[nodiscard]] std::string bytes() const {
    return u16(0xbeef) + u16(flags) + u16(1) + u16(answer_count) + u16(authority_count) +
           u16(additional_count) + dns_name(name) + u16(type) + u16(1) + answers + authority +
           additional;
  }
};

}  // namespace sallyport::test
