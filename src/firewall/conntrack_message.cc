// SPDX-License-Identifier: Apache-2.0
// IPCTNL_MSG_CT_DELETE: nested attributes, numbers in network byte order.
#include "firewall/conntrack_message.h"

#include <linux/netfilter/nfnetlink.h>
#include <linux/netfilter/nfnetlink_conntrack.h>

#include <algorithm>

#include "firewall/netlink.h"

namespace sallyport::firewall {

namespace {

constexpr std::uint16_t kDestroy = (NFNL_SUBSYS_CTNETLINK << 8) | IPCTNL_MSG_CT_DELETE;

std::uint64_t number64(Bytes data) {
  Reader reader(data);
  const auto high = reader.u32();
  const auto low = reader.u32();
  return high && low ? (std::uint64_t{*high} << 32) | *low : 0;
}

bool read_addresses(Bytes data, EndedFlow& flow) {
  const auto address = [](Bytes raw) -> std::optional<Address> {
    if (raw.size() == 4) return Address::v4(*Reader(raw).u32());
    if (raw.size() != 16) return std::nullopt;
    Address::Raw copy;
    std::ranges::copy(raw, copy.begin());
    return Address(copy);
  };
  bool source = false, destination = false;
  const bool whole = netlink::each_attribute(data, [&](const netlink::Attribute& attribute) {
    const auto found = address(attribute.data);
    if (!found) return;
    if (attribute.type == CTA_IP_V4_SRC || attribute.type == CTA_IP_V6_SRC) {
      flow.source.address = *found;
      source = true;
    }
    if (attribute.type == CTA_IP_V4_DST || attribute.type == CTA_IP_V6_DST) {
      flow.destination.address = *found;
      destination = true;
    }
  });
  return whole && source && destination;
}

bool read_protocol(Bytes data, EndedFlow& flow) {
  bool known = false;
  const bool whole = netlink::each_attribute(data, [&](const netlink::Attribute& attribute) {
    if (attribute.type == CTA_PROTO_NUM && !attribute.data.empty()) {
      flow.protocol = attribute.data[0];
      known = true;
    }
    const auto port = Reader(attribute.data).u16();
    if (attribute.type == CTA_PROTO_SRC_PORT && port) flow.source.port = *port;
    if (attribute.type == CTA_PROTO_DST_PORT && port) flow.destination.port = *port;
  });
  return whole && known;
}

bool read_tuple(Bytes data, EndedFlow& flow) {
  bool addresses = false, protocol = false;
  const bool whole = netlink::each_attribute(data, [&](const netlink::Attribute& attribute) {
    if (attribute.type == CTA_TUPLE_IP) addresses = read_addresses(attribute.data, flow);
    if (attribute.type == CTA_TUPLE_PROTO) protocol = read_protocol(attribute.data, flow);
  });
  return whole && addresses && protocol;
}

std::uint64_t read_bytes(Bytes data) {
  std::uint64_t bytes = 0;
  netlink::each_attribute(data, [&](const netlink::Attribute& attribute) {
    if (attribute.type == CTA_COUNTERS_BYTES) bytes = number64(attribute.data);
  });
  return bytes;
}

void read_times(Bytes data, EndedFlow& flow) {
  netlink::each_attribute(data, [&](const netlink::Attribute& attribute) {
    if (attribute.type == CTA_TIMESTAMP_START) flow.start_ns = number64(attribute.data);
    if (attribute.type == CTA_TIMESTAMP_STOP) flow.stop_ns = number64(attribute.data);
  });
}

std::optional<EndedFlow> read_flow(Bytes body) {
  if (body.size() < sizeof(nfgenmsg)) return std::nullopt;
  EndedFlow flow;
  bool tuple = false;
  const bool whole = netlink::each_attribute(
      body.subspan(sizeof(nfgenmsg)), [&](const netlink::Attribute& attribute) {
        switch (attribute.type) {
          case CTA_TUPLE_ORIG:
            tuple = read_tuple(attribute.data, flow);
            break;
          case CTA_MARK:
            flow.mark = Reader(attribute.data).u32().value_or(0);
            break;
          case CTA_COUNTERS_ORIG:
            flow.bytes_up = read_bytes(attribute.data);
            break;
          case CTA_COUNTERS_REPLY:
            flow.bytes_down = read_bytes(attribute.data);
            break;
          case CTA_TIMESTAMP:
            read_times(attribute.data, flow);
            break;
          default:
            break;
        }
      });
  if (!whole || !tuple) return std::nullopt;
  return flow;
}

}  // namespace

ConntrackBatch parse_conntrack(Bytes datagram) {
  ConntrackBatch batch;
  while (const auto message = netlink::next_message(datagram)) {
    if (message->type != kDestroy) continue;
    if (auto flow = read_flow(message->body))
      batch.flows.push_back(*flow);
    else
      ++batch.skipped;
  }
  if (!datagram.empty()) ++batch.skipped;
  return batch;
}

}  // namespace sallyport::firewall
