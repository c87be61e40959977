// SPDX-License-Identifier: Apache-2.0
#include "host/packets.h"

#include <netinet/in.h>

namespace sallyport::host::lab {
namespace {

void u8(std::string& out, unsigned value) { out += static_cast<char>(value); }
void u16(std::string& out, unsigned value) {
  u8(out, value >> 8);
  u8(out, value & 0xff);
}
void u32(std::string& out, std::uint32_t value) {
  u16(out, value >> 16);
  u16(out, value & 0xffff);
}
std::string raw(const Address& address) {
  const auto* bytes = reinterpret_cast<const char*>(address.raw().data());
  return address.is_v4() ? std::string(bytes + 12, 4) : std::string(bytes, 16);
}

std::uint16_t checksum(std::string data) {
  if (data.size() % 2 != 0) data += '\0';
  std::uint32_t sum = 0;
  for (std::size_t i = 0; i < data.size(); i += 2) {
    sum += static_cast<std::uint32_t>(static_cast<std::uint8_t>(data[i]) << 8 |
                                      static_cast<std::uint8_t>(data[i + 1]));
  }
  while (sum >> 16) sum = (sum & 0xffff) + (sum >> 16);
  return static_cast<std::uint16_t>(~sum);
}

std::string pseudo_header(const Address& source, const Address& destination, std::uint8_t protocol,
                          std::size_t length) {
  std::string out = raw(source) + raw(destination);
  u32(out, static_cast<std::uint32_t>(length));
  u32(out, protocol);
  return out;
}

void put_checksum(std::string& segment, std::size_t at, const std::string& before) {
  const std::uint16_t sum = checksum(before + segment);
  segment[at] = static_cast<char>(sum >> 8);
  segment[at + 1] = static_cast<char>(sum & 0xff);
}

}  // namespace

std::string ip(const IpFields& fields, const std::string& payload) {
  std::string out;
  if (fields.destination.is_v4()) {
    const std::size_t header = 20 + fields.options.size();
    u8(out, static_cast<unsigned>(0x40 | header / 4));
    u8(out, 0);
    u16(out, static_cast<unsigned>(header + payload.size()));
    u16(out, fields.id);
    u16(out, fields.fragment);
    u8(out, fields.hop_limit);
    u8(out, fields.protocol);
    u16(out, 0);
    out += raw(fields.source) + raw(fields.destination) + fields.options;
    put_checksum(out, 10, {});
  } else {
    u32(out, 6U << 28);
    u16(out, static_cast<unsigned>(payload.size()));
    u8(out, fields.protocol);
    u8(out, fields.hop_limit);
    out += raw(fields.source) + raw(fields.destination);
  }
  return out + payload;
}

std::string udp(const Endpoint& source, const Endpoint& destination, const std::string& payload) {
  std::string out;
  u16(out, source.port);
  u16(out, destination.port);
  u16(out, static_cast<unsigned>(8 + payload.size()));
  u16(out, 0);
  out += payload;
  put_checksum(out, 6, pseudo_header(source.address, destination.address, IPPROTO_UDP, out.size()));
  return out;
}

std::string tcp_syn(const Endpoint& source, const Endpoint& destination) {
  std::string out;
  u16(out, source.port);
  u16(out, destination.port);
  u32(out, 1000);
  u32(out, 0);
  u16(out, 0x5002);
  u16(out, 64000);
  u32(out, 0);
  put_checksum(out, 16,
               pseudo_header(source.address, destination.address, IPPROTO_TCP, out.size()));
  return out;
}

std::string icmpv6(const Address& source, const Address& destination, std::uint8_t type,
                   const std::string& body) {
  std::string out;
  u8(out, type);
  u8(out, 0);
  u16(out, 0);
  out += body;
  put_checksum(out, 2, pseudo_header(source, destination, IPPROTO_ICMPV6, out.size()));
  return out;
}

std::string echo_request(const Address& source, const Address& destination) {
  std::string body;
  u16(body, 7);
  u16(body, 1);
  body += "payload!";
  if (!destination.is_v4()) return icmpv6(source, destination, 128, body);
  std::string out;
  u8(out, 8);
  u8(out, 0);
  u16(out, 0);
  out += body;
  put_checksum(out, 2, {});
  return out;
}

std::string extension(std::uint8_t next) {
  std::string out;
  u8(out, next);
  u8(out, 0);
  return out + std::string("\x01\x04\0\0\0\0", 6);  // PadN
}

std::string routing_header(std::uint8_t next) {
  std::string out;
  u8(out, next);
  return out + std::string("\0\0\0\0\0\0\0", 7);
}

std::string fragment_header(std::uint8_t next, std::uint16_t offset, bool more, std::uint32_t id) {
  std::string out;
  u8(out, next);
  u8(out, 0);
  u16(out, static_cast<unsigned>(offset | (more ? 1 : 0)));
  u32(out, id);
  return out;
}

}  // namespace sallyport::host::lab
