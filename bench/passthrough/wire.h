// SPDX-License-Identifier: Apache-2.0
// What the load generator and its origin say to each other through a passthrough proxy. The client
// opens with a real ClientHello (a proxy reads its server name and must find nothing wrong with
// it); what the origin is to do is hidden in the hello's random. No TLS follows: a passthrough
// proxy cannot tell.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>

namespace sallyport::bench {

enum class Wish : std::uint8_t {
  answer = 1,  // kAnswer bytes, then close
  bulk = 2,    // as many bytes as asked for, then close
  echo = 3,    // everything back until the client closes
};
inline constexpr std::size_t kAnswer = 100;
inline constexpr std::size_t kRandomAt = 11;  // record header 5, handshake header 4, version 2

// A TLS 1.3 hello of the size that browsers sent before post-quantum key shares: 517 bytes.
inline std::string client_hello(std::string_view name, Wish wish, std::uint64_t amount) {
  const auto u16 = [](std::size_t n) {
    return std::string{static_cast<char>(n >> 8), static_cast<char>(n & 0xff)};
  };
  const auto extension = [&](std::size_t type, const std::string& body) {
    return u16(type) + u16(body.size()) + body;
  };
  std::string random(32, '\x5a');
  random[0] = static_cast<char>(wish);
  for (int i = 0; i < 8; ++i)
    random[static_cast<std::size_t>(1 + i)] = static_cast<char>(amount >> (8 * i));
  const std::string host = std::string(1, '\0') + u16(name.size()) + std::string(name);
  const std::string ciphers("\x13\x01\x13\x02\x13\x03\xc0\x2b\xc0\x2f", 10);
  std::string extensions = extension(0, u16(host.size()) + host);
  extensions += extension(43, std::string("\x04\x03\x04\x03\x03", 5));      // supported_versions
  extensions += extension(10, std::string("\x00\x02\x00\x1d", 4));          // supported_groups
  extensions += extension(13, std::string("\x00\x04\x04\x03\x08\x04", 6));  // signature_algorithms
  extensions +=
      extension(51, u16(36) + u16(0x1d) + u16(32) + std::string(32, '\x09'));  // key_share
  const std::size_t fixed = 5 + 4 + 2 + 32 + 1 + 32 + 2 + ciphers.size() + 2 + 2 + 4;
  extensions += extension(
      21,
      std::string(517 - std::min<std::size_t>(517, fixed + extensions.size()), '\0'));  // padding
  std::string body = std::string("\x03\x03", 2) + random + '\x20' + std::string(32, '\x07') +
                     u16(ciphers.size()) + ciphers + std::string("\x01\x00", 2) +
                     u16(extensions.size()) + extensions;
  const std::string message = std::string("\x01\x00", 2) + u16(body.size()) + body;
  return std::string("\x16\x03\x01", 3) + u16(message.size()) + message;
}

}  // namespace sallyport::bench
