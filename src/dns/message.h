// SPDX-License-Identifier: Apache-2.0
// DNS messages as bytes: reads what a guest asks, writes the refusals, and rewrites an upstream's
// answer for the guest. No byte of a query is copied towards the internet from here, and no
// compression pointer is followed forwards, so every walk ends. Says nothing about which names are
// allowed (policy/decide.h) or how they are resolved (net/resolver.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <expected>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/address.h"
#include "base/bytes.h"
#include "base/result.h"

namespace sallyport::dns {

inline constexpr std::size_t kMaxMessage = 65535;   // over TCP
inline constexpr std::size_t kPlainUdpLimit = 512;  // RFC 1035 s4.2.1
inline constexpr std::size_t kUdpLimit =
    1232;  // the most we send over UDP: never fragmented (DNS flag day 2020)
inline constexpr std::size_t kMaxAddresses = 64;  // taken from one answer
inline constexpr std::size_t kMaxChain = 16;      // CNAMEs followed in one answer

enum class Rcode : std::uint8_t {
  noerror = 0,
  formerr = 1,
  servfail = 2,
  nxdomain = 3,
  notimp = 4,
  refused = 5,
  badvers = 16
};
enum Type : std::uint16_t {
  kA = 1,
  kNs = 2,
  kCname = 5,
  kSoa = 6,
  kPtr = 12,
  kMx = 15,
  kTxt = 16,
  kAaaa = 28,
  kSrv = 33,
  kOpt = 41,
  kRrsig = 46,
  kSvcb = 64,
  kHttps = 65,
  kIxfr = 251,
  kAxfr = 252,
  kAny = 255,
};
[[nodiscard]] std::string type_name(std::uint16_t type);  // "AAAA", "TYPE1234"

struct Edns {
  std::uint16_t udp_size = 512;
  bool dnssec_ok = false;
};
struct Query {
  std::uint16_t id = 0;
  bool recursion_desired = false;
  bool authentic_data = false;
  bool checking_disabled = false;
  std::uint16_t type = 0;
  std::optional<Edns> edns;
  std::string question;  // on the wire as the client wrote it, case kept: name, type, class
  std::string
      name;  // for people: lower case, no trailing dot ("." for the root), odd bytes as \DDD
  // The name to judge and to resolve. Absent if it is no host name (D-03): deny it wherever names
  // are restricted.
  std::optional<std::string> host_name;

  // The most bytes that may answer this query over UDP.
  [[nodiscard]] std::size_t udp_limit() const;
};

// A query that is not one to judge: bad form, another opcode or class, ANY, a zone transfer (D-05).
struct Refusal {
  std::string answer;  // to send back; empty: stay silent (not even a query)
  Rcode rcode = Rcode::formerr;
  std::string name;  // for the egress log, as far as it was read
  std::uint16_t type = 0;
  std::string_view why;  // static text
};
[[nodiscard]] std::expected<Query, Refusal> parse_query(Bytes message);

// NXDOMAIN without SOA, so that nobody caches it, with Extended DNS Error 15 Blocked where the
// client speaks EDNS (D-04).
[[nodiscard]] std::string render_denied(
    const Query& query, std::string_view text = "not allowed by the sandbox's policy");
// An answer without records: servfail after a time-out, noerror for "no such type".
[[nodiscard]] std::string render_failure(const Query& query, Rcode rcode);

// The upstream's answer made this client's: its id and question bytes, our own OPT, `ech` removed
// from HTTPS and SVCB records (D-05, R-083), at most `limit` bytes with TC set if records had to
// go. Rcode, CNAME chain and SOA are kept. invalid: not an answer to this question; answer servfail
// instead.
[[nodiscard]] Result<std::string> prepare_answer(const Query& query, Bytes upstream,
                                                 std::size_t limit);

// The addresses an answer gives for its own question, CNAMEs followed within the answer.
struct Addresses {
  std::vector<Address> addresses;
  std::uint32_t ttl = 0;  // the least of all records used, in seconds
  std::uint8_t rcode = 0;
};
[[nodiscard]] Result<Addresses> addresses(Bytes answer);

// A query of our own, recursion desired; for tests and for resolvers that speak wire format.
// invalid: not a name.
[[nodiscard]] Result<std::string> render_query(std::uint16_t id, std::string_view name,
                                               std::uint16_t type,
                                               std::optional<Edns> edns = std::nullopt);

}  // namespace sallyport::dns
