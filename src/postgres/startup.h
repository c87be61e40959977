// SPDX-License-Identifier: Apache-2.0
// The words that a Postgres client and server exchange before TLS begins, as a pure state machine.
// The firewall answers in the server's place, so that the ClientHello (and the name in it) comes to
// the firewall before anything is sent upstream (FW-091). Encryption by GSS is declined, so clients
// go on with TLS (FW-094, FW-095); a session in clear has no name and is refused where a name is
// needed (FW-093, FW-096).
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "base/bytes.h"

namespace sallyport::postgres {

inline constexpr std::size_t kMaxStartup = 10000;  // as in the server: MAX_STARTUP_PACKET_LENGTH
inline constexpr std::size_t kMaxNegotiation = 8;  // bytes that decide one step

enum class FirstBytes { need_more, postgres, other };
// Postgres: a plausible length, then the code of SSLRequest, GSSENCRequest, CancelRequest or
// protocol 3.x.
[[nodiscard]] FirstBytes looks_like_postgres(Bytes first);

enum class Action {
  need_more,
  answer_no,   // GSSENCRequest: send 'N' and go on
  answer_yes,  // SSLRequest: send 'S'; what follows is a ClientHello
  plaintext,   // StartupMessage in clear: nothing consumed, no name to judge
  cancel,      // CancelRequest in clear: nothing consumed, no answer is expected
  refuse,      // not Postgres, or a request asked twice: close
};
struct Step {
  Action action = Action::need_more;
  std::size_t consumed = 0;  // bytes to drop from the front of the buffer
  std::string_view why;      // static text for the egress log, set with refuse
};

class Negotiation {
 public:
  // `unread` are the bytes not consumed yet. After answer_no call again with what is left; any
  // other action is the last.
  [[nodiscard]] Step feed(Bytes unread);

 private:
  bool gss_asked_ = false;
};

inline constexpr std::string_view kSslRequest{"\x00\x00\x00\x08\x04\xd2\x16\x2f", 8};

// What an upstream said to kSslRequest before it got anything else.
enum class UpstreamAnswer {
  need_more,
  tls,         // exactly 'S'
  no_tls,      // 'N': the connection ends, never a session in clear
  error,       // 'E': an ErrorResponse, not trusted and not relayed
  unexpected,  // another byte, or bytes behind the 'S' that TLS would not protect (CVE-2021-23222)
};
[[nodiscard]] UpstreamAnswer read_upstream_answer(Bytes received);

// SQLSTATEs that clients and pools know not to retry at once.
inline constexpr std::string_view kInvalidAuthorization = "28000";
inline constexpr std::string_view kConnectionRejected = "08004";
// A FATAL ErrorResponse in clear, so that psql shows the reason. Only where the client has not been
// promised TLS. Bytes that would end a field are replaced; the message is cut at 1 KiB.
[[nodiscard]] std::string render_error(std::string_view sqlstate, std::string_view message);

}  // namespace sallyport::postgres
