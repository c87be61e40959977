// SPDX-License-Identifier: Apache-2.0
// Reads the server name out of a TLS ClientHello without taking part in the handshake.
// Input is whatever an untrusted guest sent: any number of TCP segments and TLS records, every
// length checked against what is left. A hello that two TLS implementations could read differently
// is refused, never guessed at. Says nothing about whether the name is allowed: see
// policy/decide.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <expected>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"

namespace sallyport::tls {

// The largest ClientHello message (its 4-byte header included), and the most bytes of a connection
// that are ever needed to read one: what is left over is room for record headers. read() answers
// need_more only below kMaxHelloBytes.
inline constexpr std::size_t kMaxClientHello = 64U << 10;
inline constexpr std::size_t kMaxHelloBytes = kMaxClientHello + (4U << 10);

enum class FirstBytes { need_more, tls, other };
// TLS is three bytes: handshake record, major version 3, minor version 0 to 4.
[[nodiscard]] FirstBytes looks_like_tls(Bytes first);

enum class Alert : std::uint8_t {
  unexpected_message = 10,
  illegal_parameter = 47,
  access_denied = 49,
  decode_error = 50,
  protocol_version = 70,
  internal_error = 80,
  unrecognized_name = 112,
};
// One fatal alert record, to be sent as the last bytes of a connection (D-06, R-012). 0x0301 suits
// every client that has not negotiated a version yet; ClientHello::alert_version is better where a
// hello was read.
[[nodiscard]] std::string render_alert(Alert description, std::uint16_t record_version = 0x0301);

struct ClientHello {
  // Well formed (D-03), lower case, no trailing dot. Absent: no server_name extension, or an IP
  // literal in it.
  std::optional<std::string> server_name;
  bool address_as_name = false;  // server_name was an IP literal, which RFC 6066 s3 forbids
  bool ech = false;  // encrypted_client_hello offered or greased: the outer name counts (FW-085)
  std::vector<std::uint16_t> versions;  // offered, in the client's order, GREASE left out
  std::string alpn;  // the client's list as on the wire: each a length byte and that many bytes
  std::uint16_t alert_version = 0x0303;  // record version that this client accepts in an alert
  std::size_t size = 0;  // bytes of the connection that the hello took, record headers included

  [[nodiscard]] bool offers(std::string_view protocol) const;  // by ALPN: "h2", "postgresql"
};

struct HelloStop {
  ParseStop stop;
  Alert alert = Alert::decode_error;  // what to tell the client, unless stop is need_more
  std::string_view why;               // static text for the egress log: "two server names"
};

// Resumable, so that one byte at a time costs no more than all at once.
class ClientHelloReader {
 public:
  // `connection` is all that arrived since the first byte; each call passes the same bytes and more
  // behind them. After anything but need_more the reader is spent: make a new one.
  [[nodiscard]] std::expected<ClientHello, HelloStop> read(Bytes connection);

 private:
  std::size_t position_ = 0;     // bytes of the connection already looked at
  std::size_t record_left_ = 0;  // payload bytes of the open record still to come
  std::string message_;          // the handshake message so far, without record headers
};

// All at once.
[[nodiscard]] std::expected<ClientHello, HelloStop> read_client_hello(Bytes connection);

}  // namespace sallyport::tls
