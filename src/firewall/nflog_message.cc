// SPDX-License-Identifier: Apache-2.0
// NFULNL_MSG_PACKET carries attributes; of them the prefix and the payload matter. The payload
// starts with the IP header.
#include "firewall/nflog_message.h"

#include <linux/netfilter/nfnetlink.h>
#include <linux/netfilter/nfnetlink_log.h>
#include <linux/netlink.h>
#include <netinet/in.h>

#include <algorithm>
#include <optional>
#include <string_view>

#include "firewall/netlink.h"

namespace sallyport::firewall {

namespace {

constexpr std::string_view kPrefix = "sp:";
constexpr std::size_t kMaxReason = 32;
constexpr std::uint16_t kPacketMessage = (NFNL_SUBSYS_ULOG << 8) | NFULNL_MSG_PACKET;
constexpr int kMaxExtensionHeaders = 8;
constexpr std::uint8_t kUnknownProtocol = 255;

std::optional<std::string> read_reason(Bytes data) {
  std::string_view text = as_text(data);
  text = text.substr(0, text.find('\0'));
  if (!text.starts_with(kPrefix)) return std::nullopt;
  text.remove_prefix(kPrefix.size());
  while (text.ends_with(' ')) text.remove_suffix(1);
  const auto plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
  };
  if (text.empty() || text.size() > kMaxReason || !std::ranges::all_of(text, plain))
    return std::nullopt;
  return std::string(text);
}

bool has_ports(std::uint8_t protocol) {
  return protocol == IPPROTO_TCP || protocol == IPPROTO_UDP || protocol == IPPROTO_UDPLITE ||
         protocol == IPPROTO_SCTP || protocol == IPPROTO_DCCP;
}

void read_ports(Reader reader, RefusedPacket& packet) {
  if (!has_ports(packet.protocol)) return;
  const auto source = reader.u16();
  const auto destination = reader.u16();
  if (!source || !destination) return;
  packet.source.port = *source;
  packet.destination.port = *destination;
}

bool read_v4(Bytes bytes, RefusedPacket& packet) {
  if (bytes.size() < 20) return false;
  const std::size_t header = static_cast<std::size_t>(bytes[0] & 0xf) * 4;
  const bool later_fragment = (((bytes[6] << 8) | bytes[7]) & 0x1fff) != 0;
  packet.protocol = bytes[9];
  Reader addresses(bytes.subspan(12, 8));
  packet.source.address = Address::v4(*addresses.u32());
  packet.destination.address = Address::v4(*addresses.u32());
  if (header < 20) return false;
  if (!later_fragment && bytes.size() > header) read_ports(Reader(bytes.subspan(header)), packet);
  return true;
}

// The transport protocol behind the extension headers, and where it starts.
void read_extensions(std::uint8_t next, Reader reader, RefusedPacket& packet) {
  bool later_fragment = false;
  for (int i = 0; i < kMaxExtensionHeaders; ++i) {
    const bool fragment = next == IPPROTO_FRAGMENT;
    if (!fragment && next != IPPROTO_HOPOPTS && next != IPPROTO_ROUTING &&
        next != IPPROTO_DSTOPTS && next != IPPROTO_AH) {
      packet.protocol = next;
      if (!later_fragment) read_ports(reader, packet);
      return;
    }
    const auto following = reader.u8();
    const auto length = reader.u8();
    if (!following || !length) return;
    // In units of 8 bytes beyond the first 8; AH in units of 4 beyond the first 8; a fragment
    // header has no length.
    const std::size_t rest = fragment             ? 6
                             : next == IPPROTO_AH ? *length * 4U + 6U
                                                  : *length * 8U + 6U;
    const auto body = reader.take(rest);
    if (!body) return;
    if (fragment)
      later_fragment = later_fragment || ((((*body)[0] << 8) | (*body)[1]) & 0xfff8) != 0;
    next = *following;
  }
}

bool read_v6(Bytes bytes, RefusedPacket& packet) {
  if (bytes.size() < 40) return false;
  Address::Raw raw;
  std::ranges::copy(bytes.subspan(8, 16), raw.begin());
  packet.source.address = Address(raw);
  std::ranges::copy(bytes.subspan(24, 16), raw.begin());
  packet.destination.address = Address(raw);
  packet.protocol = kUnknownProtocol;
  read_extensions(bytes[6], Reader(bytes.subspan(40)), packet);
  return true;
}

std::optional<RefusedPacket> read_packet(Bytes body) {
  if (body.size() < sizeof(nfgenmsg)) return std::nullopt;
  std::optional<std::string> reason;
  Bytes payload;
  const bool whole = netlink::each_attribute(body.subspan(sizeof(nfgenmsg)),
                                             [&](const netlink::Attribute& attribute) {
                                               if (attribute.type == NFULA_PREFIX)
                                                 reason = read_reason(attribute.data);
                                               if (attribute.type == NFULA_PAYLOAD)
                                                 payload = attribute.data;
                                             });
  if (!whole || !reason || payload.empty()) return std::nullopt;
  RefusedPacket packet{*reason, 0, {}, {}};
  const unsigned version = payload[0] >> 4;
  const bool read =
      version == 4 ? read_v4(payload, packet) : version == 6 && read_v6(payload, packet);
  if (!read) return std::nullopt;
  return packet;
}

}  // namespace

NflogBatch parse_nflog(Bytes datagram) {
  NflogBatch batch;
  while (const auto message = netlink::next_message(datagram)) {
    if (message->type == NLMSG_OVERRUN) batch.overrun = true;
    if (message->type != kPacketMessage) continue;
    if (auto packet = read_packet(message->body))
      batch.packets.push_back(std::move(*packet));
    else
      ++batch.skipped;
  }
  if (!datagram.empty()) ++batch.skipped;
  return batch;
}

}  // namespace sallyport::firewall
