// SPDX-License-Identifier: Apache-2.0
// What the supervisor and the sandbox-agent (PID 1 in the guest) say to each other: HTTP/2 without
// TLS, prior knowledge, over a byte stream (a unix socket for containers; vsock or virtio-serial
// for VMs later). The supervisor trusts nothing the agent says: every answer is parsed as hostile
// and bounded (kMax...).
//
//   GET  /v1/health                -> 200 {"agent":"<version>","pid":1}
//   POST /v1/processes             body: StartRequest as JSON. -> 200, body: a sequence of records
//   (below), the first is
//                                  `started`, the last is `exit`. 404
//                                  {"error":{"code":"executable_not_found",...}} and 400
//                                  {"error":...} when nothing was started.
//   POST /v1/processes/{pid}/kill  {"signal":15} -> 200 {} | 404. Reaches the whole process tree of
//   that command. POST /v1/shutdown              TERM to everything, KILL after a grace, then the
//   agent exits: -> 200 {} (files and PTY get their paths under /v1/files and /v1/terminals)
//
// StartRequest:
// {"command":"ls","args":["-l"],"cwd":"/vercel","env":{"K":"V"},"user":"ubuntu"|"root","timeout_ms":0}
// command is looked up in env PATH if it has no slash; cwd relative to the user's home. env is
// complete: the agent adds only HOME, USER, LOGNAME (and SUDO_USER for sudo) where absent. Stream
// closing by the supervisor kills nothing.
//
// Record: 1 byte type, 4 bytes big-endian length, payload.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/bytes.h"
#include "base/result.h"

namespace sallyport::guest {

inline constexpr std::size_t kMaxRecord = 1U << 20;
inline constexpr int kAgentListenFd =
    3;  // the OCI driver passes the listening socket at this number

enum class RecordType : std::uint8_t {
  started = 1,  // {"pid":42}
  out = 2,      // stdout bytes
  err = 3,      // stderr bytes
  exit = 4,     // {"code":0} or {"signal":9,"timed_out":false}; nothing follows
};
struct Record {
  RecordType type;
  Bytes payload;         // borrowed from the input
  std::size_t consumed;  // bytes of the input this record took
};
[[nodiscard]] Parse<Record> parse_record(Bytes buffered);
[[nodiscard]] std::string render_record(RecordType type, std::string_view payload);

}  // namespace sallyport::guest
