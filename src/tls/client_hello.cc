// SPDX-License-Identifier: Apache-2.0
#include "tls/client_hello.h"

#include <algorithm>

#include "base/address.h"
#include "base/check.h"
#include "base/host_name.h"

namespace sallyport::tls {
namespace {

constexpr std::uint8_t kHandshakeRecord = 22;
constexpr std::uint8_t kClientHelloMessage = 1;
constexpr std::size_t kRecordHeader = 5;
constexpr std::size_t kMessageHeader = 4;
constexpr std::size_t kMaxRecordPayload = 1U << 14;  // RFC 8446 s5.1

enum Extension : std::uint16_t {
  kServerName = 0,
  kAlpn = 16,
  kSupportedVersions = 43,
  kEncryptedClientHello = 0xfe0d,  // RFC 9849
};

using Stop = std::unexpected<HelloStop>;

Stop need_more() {
  return Stop({ParseStop::need_more, Alert::decode_error, "hello is not complete"});
}
Stop malformed(std::string_view why, Alert alert = Alert::decode_error) {
  return Stop({ParseStop::malformed, alert, why});
}
Stop too_large() { return Stop({ParseStop::too_large, Alert::decode_error, "hello over 64 KiB"}); }

// A vector as TLS writes it: a length, then exactly that many bytes.
std::optional<Bytes> vector8(Reader& in) {
  const auto length = in.u8();
  return length ? in.take(*length) : std::nullopt;
}
std::optional<Bytes> vector16(Reader& in) {
  const auto length = in.u16();
  return length ? in.take(*length) : std::nullopt;
}

bool is_grease(std::uint16_t value) {
  return (value & 0x0f0f) == 0x0a0a && (value >> 8) == (value & 0xff);
}

// RFC 6066 s3. Exactly one entry of type host_name: where a list has more, servers differ in which
// they take, and a type that nobody defined has no form that could be skipped.
std::expected<void, HelloStop> read_server_name(Bytes body, ClientHello& hello) {
  Reader in(body);
  const auto list = vector16(in);
  if (!list || !in.empty() || list->empty()) return malformed("malformed server_name");
  Reader entries(*list);
  const auto type = entries.u8();
  const auto name = vector16(entries);
  if (!type || !name) return malformed("malformed server_name");
  if (*type != 0) return malformed("server name of unknown type", Alert::illegal_parameter);
  if (!entries.empty()) return malformed("two server names", Alert::illegal_parameter);
  if (name->empty()) return malformed("empty server name", Alert::illegal_parameter);
  hello.server_name = normal_host_name(as_text(*name));
  if (hello.server_name) return {};
  if (!Address::parse(as_text(*name)))
    return malformed("server name is no host name", Alert::illegal_parameter);
  hello.address_as_name = true;
  return {};
}

std::expected<void, HelloStop> read_alpn(Bytes body, ClientHello& hello) {
  Reader in(body);
  const auto list = vector16(in);
  if (!list || !in.empty() || list->empty()) return malformed("malformed ALPN");
  for (Reader entries(*list); !entries.empty();) {
    const auto protocol = vector8(entries);
    if (!protocol || protocol->empty()) return malformed("malformed ALPN");
  }
  hello.alpn = as_text(*list);
  return {};
}

std::expected<void, HelloStop> read_versions(Bytes body, ClientHello& hello) {
  Reader in(body);
  const auto list = vector8(in);
  if (!list || !in.empty() || list->empty() || list->size() % 2 != 0)
    return malformed("malformed supported_versions");
  hello.versions.clear();
  Reader entries(*list);
  while (const auto version = entries.u16()) {
    if (!is_grease(*version)) hello.versions.push_back(*version);
  }
  return {};
}

std::expected<void, HelloStop> read_extension(std::uint16_t type, Bytes body, ClientHello& hello) {
  switch (type) {
    case kServerName:
      return read_server_name(body, hello);
    case kAlpn:
      return read_alpn(body, hello);
    case kSupportedVersions:
      return read_versions(body, hello);
    case kEncryptedClientHello:
      hello.ech = true;
      return {};
    default:
      return {};  // GREASE and whatever comes next
  }
}

std::expected<void, HelloStop> read_extensions(Bytes block, ClientHello& hello) {
  std::vector<std::uint16_t> seen;
  for (Reader in(block); !in.empty();) {
    const auto type = in.u16();
    const auto body = vector16(in);
    if (!type || !body) return malformed("extension overruns the hello");
    seen.push_back(*type);
    if (const auto read = read_extension(*type, *body, hello); !read) return Stop(read.error());
  }
  std::ranges::sort(seen);
  if (std::ranges::adjacent_find(seen) != seen.end()) {
    return malformed("extension given twice", Alert::illegal_parameter);  // RFC 8446 s4.2
  }
  return {};
}

// The body of a ClientHello message, RFC 8446 s4.1.2; older versions have the same form.
std::expected<ClientHello, HelloStop> read_message(Bytes body) {
  ClientHello hello;
  Reader in(body);
  const auto version = in.u16();
  const auto random = in.take(32);
  if (!version || !random) return malformed("hello is too short");
  if (*version >> 8 != 3) return malformed("unknown TLS version", Alert::protocol_version);
  hello.versions = {*version};
  hello.alert_version = std::clamp<std::uint16_t>(*version, 0x0301, 0x0303);
  const auto session = vector8(in);
  if (!session || session->size() > 32) return malformed("malformed session id");
  const auto ciphers = vector16(in);
  if (!ciphers || ciphers->empty() || ciphers->size() % 2 != 0)
    return malformed("malformed cipher suites");
  const auto compressions = vector8(in);
  if (!compressions || compressions->empty()) return malformed("malformed compression methods");
  if (in.empty()) return hello;  // before TLS 1.2 a hello could end here
  const auto extensions = vector16(in);
  if (!extensions || !in.empty()) return malformed("extensions do not fill the hello");
  if (const auto read = read_extensions(*extensions, hello); !read) return Stop(read.error());
  return hello;
}

}  // namespace

FirstBytes looks_like_tls(Bytes first) {
  if (!first.empty() && first[0] != kHandshakeRecord) return FirstBytes::other;
  if (first.size() > 1 && first[1] != 3) return FirstBytes::other;
  if (first.size() > 2 && first[2] > 4) return FirstBytes::other;
  return first.size() < 3 ? FirstBytes::need_more : FirstBytes::tls;
}

std::string render_alert(Alert description, std::uint16_t record_version) {
  const auto byte = [](unsigned value) { return static_cast<char>(value & 0xff); };
  constexpr char kAlertRecord = 21;
  constexpr char kFatal = 2;
  return {kAlertRecord,
          byte(record_version >> 8),
          byte(record_version),
          0,
          2,
          kFatal,
          byte(static_cast<unsigned>(description))};
}

bool ClientHello::offers(std::string_view protocol) const {
  Reader in(as_bytes(alpn));
  while (const auto offered = vector8(in)) {
    if (as_text(*offered) == protocol) return true;
  }
  return false;
}

std::expected<ClientHello, HelloStop> ClientHelloReader::read(Bytes connection) {
  CHECK(connection.size() >= position_);  // the caller passes all bytes from the first one on
  for (;;) {
    Reader in(connection.subspan(position_));
    if (record_left_ == 0) {
      const auto type = in.u8();
      const auto version = in.u16();
      const auto length = in.u16();
      if (type && *type != kHandshakeRecord) {
        return malformed("record is no handshake", Alert::unexpected_message);
      }
      if (version && *version >> 8 != 3)
        return malformed("unknown record version", Alert::protocol_version);
      if (!length) return need_more();
      if (*length == 0 || *length > kMaxRecordPayload)
        return malformed("record of impossible length");
      record_left_ = *length;
      position_ += kRecordHeader;
    }
    const Bytes piece = in.rest().first(std::min(record_left_, in.left()));
    message_.append(as_text(piece));
    position_ += piece.size();
    record_left_ -= piece.size();

    if (!message_.empty() && static_cast<std::uint8_t>(message_[0]) != kClientHelloMessage) {
      return malformed("handshake does not begin with a ClientHello", Alert::unexpected_message);
    }
    // Judged on the declared length, before anything of that size is waited for or kept.
    // Known record headers count too, so a hello cut into one-byte records cannot make the caller
    // keep six times as much.
    std::size_t declared = kMessageHeader;
    if (message_.size() >= kMessageHeader) {
      Reader header(as_bytes(message_).subspan(1));
      declared += *header.u24();
    }
    if (declared > kMaxClientHello) return too_large();
    if (message_.size() >= kMessageHeader) {
      // A second handshake message in the same record has no place before the server's answer, and
      // what it is depends on who reads it. Judged on the record's length, so the answer is the
      // same however the bytes are cut.
      if (message_.size() + record_left_ > declared) {
        return malformed("bytes behind the hello in its record", Alert::unexpected_message);
      }
      if (message_.size() == declared) {
        auto hello = read_message(as_bytes(message_).subspan(kMessageHeader));
        if (hello) hello->size = position_;
        return hello;
      }
    }
    const std::size_t missing = declared - message_.size();
    const std::size_t next_header = missing > record_left_ ? kRecordHeader : 0;
    if (position_ + missing + next_header > kMaxHelloBytes) return too_large();
    if (record_left_ > 0) return need_more();
  }
}

std::expected<ClientHello, HelloStop> read_client_hello(Bytes connection) {
  return ClientHelloReader().read(connection);
}

}  // namespace sallyport::tls
