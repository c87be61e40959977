// SPDX-License-Identifier: Apache-2.0
// The control protocol between the supervisor (sandboxd) and the firewall worker of one sandbox.
//
// Transport: a SOCK_STREAM unix socket pair. A frame is a 4-byte big-endian length and that many
// bytes of JSON (at most kMaxFrame). The supervisor asks, the worker answers in order; `id` of the
// answer repeats the request's. The worker alone may also send events (no id). Descriptors travel
// by SCM_RIGHTS beside the frame that names them.
//
// The worker starts with inherited descriptors at fixed numbers (enum InheritedFd) and nothing else
// open.
//
//   supervisor -> worker
//     {"id":1,"op":"configure","sandbox":"sbx_1","name":"web","boundary":{"closed":[cidr],"opened":[cidr],"attached":[cidr]},
//      "resolvers":["198.18.0.53"],"guest":["10.209.0.2","fd53::2"],"limits":{"connections":4096,"log_bytes":67108864}}
//     {"id":2,"op":"prepare","version":7,"policy":{...request grammar...}}     compiled and held;
//     from here to commit/abort
//                                                                            new flows and queries
//                                                                            wait, old ones go on
//     {"id":3,"op":"commit","version":7}      swap, re-judge every open flow, cut what is denied
//     (I4), answer with counts
//     {"id":4,"op":"abort","version":7}       the old policy stays
//     {"id":5,"op":"stats"}
//     {"id":7,"op":"stop"}                    end every flow, with its egress line, and refuse what
//                                             comes after; answered before the lines are written,
//                                             and the next request after
//     {"id":6,"op":"rotate_log"} + fd         write egress lines to this descriptor from now on
//   worker -> supervisor
//     {"id":1,"ok":true}
//     {"id":3,"ok":true,"version":7,"kept":12,"cut":3}
//     {"id":2,"ok":false,"error":{"code":"invalid","message":"..."}}
//     {"id":5,"ok":true,"open":15,"accepted":100,"denied":3,"bytes_up":1,"bytes_down":2,"version":7,"uptime_ms":5}
//     {"event":"log_full","bytes":67108864}   please rotate
//
// Until the first commit every connection and query is refused. If the supervisor's end closes, the
// worker goes on with the policy in force (a daemon restart re-adopts it through kListen, a
// listening unix socket); if a second supervisor connects, the newest wins.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/bytes.h"
#include "base/json.h"
#include "base/result.h"

namespace sallyport::firewall::control {

inline constexpr std::size_t kMaxFrame = 16U
                                         << 20;  // a policy of kMaxPolicyBytes plus its envelope

// Descriptor numbers in the worker, in this order; made by the supervisor. Everything but control,
// listen and log was opened inside the router namespace.
enum InheritedFd : int {
  kControl = 3,  // connected control socket
  kListen = 4,   // listening unix socket on which a restarted supervisor connects
  kLog = 5,      // egress log, O_APPEND, write only
  kTcp4 = 6,     // IP_TRANSPARENT listener, TPROXY target for IPv4
  kTcp6 = 7,     // the same for IPv6
  kDnsUdp4 = 8,  // UDP on the gateway address, target of the port 53 redirect
  kDnsUdp6 = 9,
  kDnsTcp4 = 10,  // TCP listener likewise
  kDnsTcp6 = 11,
  kNflog = 12,      // nfnetlink_log socket bound to group kNflogGroup: what nftables refused
  kConntrack = 13,  // ctnetlink socket subscribed to DESTROY: accounting of kernel-forwarded flows
  kInheritedEnd = 14,
};
inline constexpr int kNflogGroup = 100;
// NFLOG prefixes written by the ruleset and read by the worker: "sp:<reason code>", as in
// policy::Reason. Flows that the kernel forwards carry this conntrack mark, so that DESTROY events
// of others are ignored.
inline constexpr std::uint32_t kForwardedMark = 0x5a11;
// Packet mark of TPROXY delivery.
inline constexpr std::uint32_t kTproxyMark = 0x1;

// Removes one whole frame from the front of `buffered` and parses it. need_more: nothing consumed.
// Anything else that is wrong ends the channel.
struct Frame {
  json::object body;
  std::size_t consumed = 0;
};
[[nodiscard]] Parse<Frame> parse_frame(Bytes buffered);
[[nodiscard]] std::string render_frame(const json::value& body);

}  // namespace sallyport::firewall::control
