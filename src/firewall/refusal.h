// SPDX-License-Identifier: Apache-2.0
// How a client is told that its connection ends here (D-06): in its own protocol where it speaks
// one that we know, else with an RST, and at once. A TLS client never gets a byte of plain
// text.
#pragma once

#include <string>
#include <string_view>

#include "base/bytes.h"
#include "net/reactor.h"
#include "net/task.h"

namespace sallyport::firewall {

// An HTTP/1.1 request line begins here: a known method and a space (case matters, RFC 9110 s9.1).
[[nodiscard]] bool looks_like_http(Bytes first);

// A whole 403 response with a one-line reason.
[[nodiscard]] std::string render_forbidden(std::string_view reason);

// Sends `last_words` and a FIN, then waits a little until the client has taken them: a close with
// unread bytes would be an RST, which can overtake them. Without words it is an RST at once.
net::Task<> say_and_close(net::Bell& bell, net::Socket& client, std::string last_words);

}  // namespace sallyport::firewall
