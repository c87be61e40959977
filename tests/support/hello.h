// SPDX-License-Identifier: Apache-2.0
// Writes ClientHellos, well formed and not, for tests of everything that reads them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace sallyport::test {

inline std::string u8(std::size_t value) { return std::string(1, static_cast<char>(value & 0xff)); }
inline std::string u16(std::size_t value) { return u8(value >> 8) + u8(value); }
inline std::string u24(std::size_t value) { return u8(value >> 16) + u16(value); }
inline std::string with_u8(std::string_view body) { return u8(body.size()) + std::string(body); }
inline std::string with_u16(std::string_view body) { return u16(body.size()) + std::string(body); }

inline std::string record(std::string_view payload, std::size_t version = 0x0301) {
  return u8(22) + u16(version) + with_u16(payload);
}
// The same message in records of at most `size` bytes each.
inline std::string records(std::string_view message, std::size_t size) {
  std::string out;
  for (std::size_t at = 0; at < message.size(); at += size) out += record(message.substr(at, size));
  return out;
}

inline std::string sni_entry(std::string_view name) { return u8(0) + with_u16(name); }

class Hello {
 public:
  Hello& sni(std::string_view name) { return extension(0, with_u16(sni_entry(name))); }
  Hello& alpn(const std::vector<std::string>& protocols) {
    std::string list;
    for (const auto& protocol : protocols) list += with_u8(protocol);
    return extension(16, with_u16(list));
  }
  Hello& versions(const std::vector<std::uint16_t>& offered) {
    std::string list;
    for (const auto version : offered) list += u16(version);
    return extension(43, with_u8(list));
  }
  Hello& extension(std::size_t type, std::string_view body) {
    extensions_ += u16(type) + with_u16(body);
    return *this;
  }
  // A padding extension that makes the message exactly `size` bytes.
  Hello& padded_to(std::size_t size) {
    const std::size_t now = message().size();
    return extension(21, std::string(size - now - 4, '\0'));
  }
  Hello& legacy_version(std::size_t version) {
    version_ = version;
    return *this;
  }
  Hello& ciphers(std::string_view list) {
    ciphers_ = list;
    return *this;
  }
  Hello& session(std::string_view id) {
    session_ = id;
    return *this;
  }
  Hello& compressions(std::string_view list) {
    compressions_ = list;
    return *this;
  }
  [[nodiscard]] std::string message() const {
    const std::string body = u16(version_) + std::string(32, 'r') + with_u8(session_) +
                             with_u16(ciphers_) + with_u8(compressions_) + with_u16(extensions_);
    return u8(1) + u24(body.size()) + body;
  }
  [[nodiscard]] std::string bytes() const { return records(message(), 1U << 14); }

 private:
  std::size_t version_ = 0x0303;
  std::string session_ = std::string(32, 's');
  std::string ciphers_ = "\x13\x01\x13\x02";
  std::string compressions_ = std::string(1, '\0');
  std::string extensions_;
};

}  // namespace sallyport::test
