// SPDX-License-Identifier: Apache-2.0
// The first bytes of a connection, read until it is known what they are: a TLS ClientHello (over
// any number of segments and records), a Postgres negotiation that leads to one (answered in the
// server's place, FW-091), or neither. What was read is kept for whoever comes next. Decides
// nothing.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "net/budget.h"
#include "net/reactor.h"
#include "net/task.h"
#include "policy/decide.h"
#include "postgres/startup.h"
#include "tls/client_hello.h"

namespace sallyport::firewall {

struct Opening {
  enum class Kind {
    hello,           // a ClientHello was read, with a name or without
    plain,           // neither TLS nor Postgres
    http,            // of these, a plain HTTP request
    postgres_clear,  // a Postgres start-up without TLS
    silent,          // no byte within the grace
    malformed,       // began as TLS or Postgres and went wrong
    late,            // not complete at the deadline
    closed,          // the client went away first
    full,            // no room to keep it
    cancelled,
  };
  Kind kind = Kind::closed;
  policy::Protocol protocol =
      policy::Protocol::other;  // tls as soon as the client expects TLS bytes
  std::optional<std::string> name;
  tls::Alert alert = tls::Alert::access_denied;
  std::uint16_t alert_version = 0x0301;
  std::string_view why;             // with malformed; static text
  std::vector<std::uint8_t> bytes;  // to be replayed; taken from the budget
};

struct OpeningLimits {
  std::chrono::milliseconds deadline{
      10000};  // from accept to the last byte of the hello, absolute
  std::chrono::milliseconds grace{100};  // D-08
};

class OpeningReader {
 public:
  // `patient`: only bytes can tell what the connection is; else silence is an answer after the
  // grace (D-08), and so is a beginning that stays unclear.
  OpeningReader(net::Bell& bell, net::Socket& client, net::Budget& budget,
                const OpeningLimits& limits, bool patient)
      : bell_(bell), client_(client), budget_(budget), limits_(limits), patient_(patient) {}

  OpeningReader(const OpeningReader&) = delete;
  OpeningReader& operator=(const OpeningReader&) = delete;
  ~OpeningReader() { budget_.give(opening_.bytes.size()); }  // nothing, once run() handed them on

  net::Task<Opening> run();

 private:
  enum class Stage { first, negotiation, hello };
  bool read_some();  // false: opening_.kind says why no more
  bool classify();   // true: opening_ is complete
  bool negotiate();
  bool read_hello();
  bool done(Opening::Kind kind) {
    opening_.kind = kind;
    return true;
  }

  net::Bell& bell_;
  net::Socket& client_;
  net::Budget& budget_;
  const OpeningLimits& limits_;
  const bool patient_;
  Stage stage_ = Stage::first;
  tls::ClientHelloReader hello_;
  postgres::Negotiation negotiation_;
  Opening opening_;
};

}  // namespace sallyport::firewall
