// SPDX-License-Identifier: Apache-2.0
#include "host/conntrack.h"

#include <arpa/inet.h>
#include <linux/netfilter/nf_conntrack_common.h>
#include <linux/netfilter/nf_conntrack_tcp.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netfilter/nfnetlink_conntrack.h>
#include <netinet/in.h>

#include <cstring>
#include <optional>

namespace sallyport::host {
namespace {

constexpr std::uint16_t message_type(int message) {
  return static_cast<std::uint16_t>(NFNL_SUBSYS_CTNETLINK << 8 | message);
}

std::uint32_t be32(Bytes value) { return Reader(value).u32().value_or(0); }
std::uint16_t be16(Bytes value) { return Reader(value).u16().value_or(0); }

std::optional<Address> address_in(Bytes ip, std::uint16_t four, std::uint16_t six) {
  if (const Bytes raw = find_attribute(ip, four); raw.size() == 4) return Address::v4(be32(raw));
  if (const Bytes raw = find_attribute(ip, six); raw.size() == 16) {
    Address::Raw bytes;
    std::memcpy(bytes.data(), raw.data(), bytes.size());
    return Address(bytes);
  }
  return std::nullopt;
}

bool finished(Bytes attributes) {
  const Bytes state =
      find_attribute(find_attribute(find_attribute(attributes, CTA_PROTOINFO), CTA_PROTOINFO_TCP),
                     CTA_PROTOINFO_TCP_STATE);
  return state.size() == 1 &&
         (state[0] == TCP_CONNTRACK_TIME_WAIT || state[0] == TCP_CONNTRACK_CLOSE);
}

std::optional<TrackedFlow> flow_in(Bytes attributes) {
  const Bytes tuple = find_attribute(attributes, CTA_TUPLE_ORIG);
  const Bytes ip = find_attribute(tuple, CTA_TUPLE_IP);
  const Bytes proto = find_attribute(tuple, CTA_TUPLE_PROTO);
  const auto source = address_in(ip, CTA_IP_V4_SRC, CTA_IP_V6_SRC);
  const auto destination = address_in(ip, CTA_IP_V4_DST, CTA_IP_V6_DST);
  const Bytes number = find_attribute(proto, CTA_PROTO_NUM);
  if (!source || !destination || number.size() != 1) return std::nullopt;
  TrackedFlow flow;
  flow.protocol = number[0];
  flow.source = {*source, be16(find_attribute(proto, CTA_PROTO_SRC_PORT))};
  flow.destination = {*destination, be16(find_attribute(proto, CTA_PROTO_DST_PORT))};
  flow.mark = be32(find_attribute(attributes, CTA_MARK));
  flow.redirected = (be32(find_attribute(attributes, CTA_STATUS)) & IPS_DST_NAT) != 0;
  flow.live = !finished(attributes);
  flow.key.assign(tuple.begin(), tuple.end());
  flow.id = be32(find_attribute(attributes, CTA_ID));
  return flow;
}

}  // namespace

Result<std::vector<TrackedFlow>> list_flows(NetfilterSocket& socket) {
  std::vector<TrackedFlow> flows;
  NetlinkMessage request(message_type(IPCTNL_MSG_CT_GET), NLM_F_REQUEST | NLM_F_DUMP, AF_UNSPEC);
  const auto asked = socket.dump(request, [&](Bytes attributes) {
    if (auto flow = flow_in(attributes)) flows.push_back(std::move(*flow));
  });
  if (!asked) return context("list flows", asked.error());
  return flows;
}

Result<> delete_flows(NetfilterSocket& socket, const std::vector<TrackedFlow>& flows) {
  for (const TrackedFlow& flow : flows) {
    NetlinkMessage request(message_type(IPCTNL_MSG_CT_DELETE), NLM_F_REQUEST | NLM_F_ACK,
                           flow.destination.address.is_v4() ? AF_INET : AF_INET6);
    const auto tuple = request.begin(CTA_TUPLE_ORIG);
    request.append_raw(flow.key);
    request.end(tuple);
    request.put_be32(CTA_ID, flow.id);
    const auto asked = socket.ask(request);
    if (!asked && asked.error().code != Code::not_found)
      return context("delete flow", asked.error());
  }
  return {};
}

}  // namespace sallyport::host
