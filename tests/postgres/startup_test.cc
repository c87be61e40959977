// SPDX-License-Identifier: Apache-2.0
#include "postgres/startup.h"

#include <gtest/gtest.h>

#include <array>
#include <random>
#include <string>

#include "support/exact.h"

namespace sallyport::postgres {
namespace {

using namespace std::string_literals;
using test::Exact;

const std::string kSsl{kSslRequest};
const auto kGss = "\x00\x00\x00\x08\x04\xd2\x16\x30"s;
const auto kCancel = "\x00\x00\x00\x10\x04\xd2\x16\x2e\x00\x00\x00\x01\x00\x00\x00\x02"s;
const auto kStartup =
    "\x00\x00\x00\x15\x00\x03\x00\x00user\x00"
    "alice\x00\x00"s;

// Feeds `bytes` in pieces of `piece`; gives the answers as letters: N, S, then what ended it:
// p(laintext), c(ancel), r(efuse), or ? while it waits. After S the rest belongs to TLS and is
// given back.
struct Talk {
  std::string actions;
  std::string rest;
};
Talk talk(std::string_view bytes, std::size_t piece) {
  Negotiation negotiation;
  Talk out;
  std::string unread;
  for (std::size_t at = 0; at < bytes.size();) {
    unread += bytes.substr(at, piece);
    at += std::min(piece, bytes.size() - at);
    for (;;) {
      const Step step = negotiation.feed(Exact(unread));
      unread.erase(0, step.consumed);
      if (step.action == Action::need_more) break;
      if (step.action == Action::answer_no) {
        out.actions += 'N';
        continue;
      }
      out.actions += step.action == Action::answer_yes  ? 'S'
                     : step.action == Action::plaintext ? 'p'
                     : step.action == Action::cancel    ? 'c'
                                                        : 'r';
      out.rest = unread + std::string(bytes.substr(at));
      return out;
    }
  }
  out.actions += '?';
  out.rest = unread;
  return out;
}
void expect_actions(std::string_view bytes, std::string_view actions) {
  for (std::size_t piece = 1; piece <= bytes.size(); ++piece) {
    EXPECT_EQ(talk(bytes, piece).actions, actions) << piece;
  }
}

// FW-090, FW-091
TEST(PostgresNegotiation, ssl_request_is_answered_yes_and_the_hello_is_left) {
  expect_actions(kSsl, "S");
  EXPECT_EQ(talk(kSsl + "\x16\x03\x01", 3).rest, "\x16\x03\x01");
}

// FW-094, R-074
TEST(PostgresNegotiation, gss_request_is_declined_and_ssl_follows) {
  expect_actions(kGss + kSsl, "NS");
}

// FW-095: a client that requires GSS gives up after the N; if it goes on in clear it is refused.
TEST(PostgresNegotiation, gss_request_alone_leads_nowhere) {
  expect_actions(kGss, "N?");
  expect_actions(kGss + kStartup, "Np");
}

//
TEST(PostgresNegotiation, requests_asked_twice_are_refused) {
  expect_actions(kGss + kGss, "Nr");
  expect_actions(kGss + kGss + kGss + kSsl, "Nr");
  // After S only TLS may follow: the second request is judged by the reader of the ClientHello.
  expect_actions(kSsl + kSsl, "S");
  EXPECT_EQ(talk(kSsl + kSsl, 8).rest, kSsl);
  EXPECT_EQ(talk(kSsl + kGss, 8).rest, kGss);
}

// FW-093, FW-096
TEST(PostgresNegotiation, startup_in_clear_is_told_apart) {
  expect_actions(kStartup, "p");
  EXPECT_EQ(talk(kStartup, 1).rest, kStartup);  // nothing consumed: who may pass it replays it
  expect_actions("\x00\x00\x00\x09\x00\x03\x00\x02\x00"s, "p");
}

TEST(PostgresNegotiation, cancel_in_clear_is_told_apart) {
  expect_actions(kCancel, "c");
  expect_actions(kGss + kCancel, "Nc");
}

TEST(PostgresNegotiation, anything_else_is_refused) {
  for (const auto& bytes :
       {"\x16\x03\x01\x02\x00"s, "GET / HTTP/1.1"s, "\x00\x00\x00\x07\x04\xd2\x16\x2f"s,
        "\x00\x00\x00\x09\x04\xd2\x16\x2f"s, "\x00\x00\x00\x0c\x04\xd2\x16\x30"s,
        "\x00\x00\x00\x08\x00\x03\x00\x00"s, "\x00\x00\x27\x11\x00\x03\x00\x00"s,
        "\x00\x01\x00\x08\x04\xd2\x16\x2f"s, "\x00\x00\x00\x20\x00\x02\x00\x00"s,
        "\x00\x00\x00\x0f\x04\xd2\x16\x2e"s, "\x00\x00\x27\x10\x04\xd2\x16\x2e"s,
        "\x00\x00\x00\x08\x04\xd2\x16\x31"s}) {
    expect_actions(bytes, "r");
  }
  expect_actions("\x00\x00\x27\x10\x00\x03\x00\x00"s, "p");  // 10000, the server's own limit
}

// every truncation waits.
TEST(PostgresNegotiation, half_a_request_waits_for_more) {
  for (const auto& bytes : {kSsl, kGss, kCancel, kStartup}) {
    for (std::size_t size = 0; size < kMaxNegotiation; ++size) {
      EXPECT_EQ(Negotiation().feed(Exact(bytes.substr(0, size))).action, Action::need_more) << size;
      EXPECT_EQ(looks_like_postgres(Exact(bytes.substr(0, size))), FirstBytes::need_more) << size;
    }
    EXPECT_EQ(looks_like_postgres(Exact(bytes)), FirstBytes::postgres);
  }
}

// direct TLS is not Postgres here, but TLS.
TEST(PostgresNegotiation, other_protocols_are_known_by_their_first_byte) {
  for (const auto& bytes : {"\x16"s, "G"s, "\x80"s, "\x00\x01"s, "\x00\x00\x00\x08\x16"s}) {
    EXPECT_EQ(looks_like_postgres(Exact(bytes)), FirstBytes::other);
  }
}

TEST(PostgresNegotiation, random_bytes_get_one_answer_however_they_are_cut) {
  std::mt19937 random(3);
  for (int round = 0; round < 3000; ++round) {
    std::string bytes;
    for (int i = 0; i < 3; ++i) bytes += std::array{kSsl, kGss, kCancel, kStartup}[random() % 4];
    for (unsigned edits = random() % 3; edits > 0; --edits)
      bytes[random() % 24] = static_cast<char>(random());
    const Talk whole = talk(bytes, bytes.size());
    const Talk cut = talk(bytes, 1 + random() % 9);
    ASSERT_EQ(whole.actions, cut.actions);
    ASSERT_EQ(whole.rest, cut.rest);
  }
}

// R-076, FW-096
TEST(PostgresUpstream, only_a_lone_s_is_a_promise_of_tls) {
  const auto answer = [](std::string_view bytes) { return read_upstream_answer(Exact(bytes)); };
  EXPECT_EQ(answer(""), UpstreamAnswer::need_more);
  EXPECT_EQ(answer("S"), UpstreamAnswer::tls);
  EXPECT_EQ(answer("N"), UpstreamAnswer::no_tls);
  EXPECT_EQ(answer("N1"), UpstreamAnswer::no_tls);
  EXPECT_EQ(answer("E"), UpstreamAnswer::error);
  EXPECT_EQ(answer("E\x00\x00\x00\x10SFATAL"s), UpstreamAnswer::error);
  EXPECT_EQ(answer("SE"), UpstreamAnswer::unexpected);
  EXPECT_EQ(answer("G"), UpstreamAnswer::unexpected);
  EXPECT_EQ(answer("s"), UpstreamAnswer::unexpected);
}

// FW-092, FW-093: the form that psql prints as "FATAL:  ...".
TEST(PostgresError, carries_severity_state_and_message) {
  EXPECT_EQ(render_error(kInvalidAuthorization, "no"),
            "E\x00\x00\x00\x1eSFATAL\x00VFATAL\x00"
            "C28000\x00Mno\x00\x00"s);
}

TEST(PostgresError, cannot_be_broken_by_its_message) {
  const std::string error = render_error(kConnectionRejected, "a\0b"s + std::string(5000, 'x'));
  EXPECT_EQ(error.find("Ma?bx"), error.find('M'));
  EXPECT_LT(error.size(), 1100U);
  Reader in(as_bytes(error).subspan(1));
  EXPECT_EQ(*in.u32(), error.size() - 1);
}

}  // namespace
}  // namespace sallyport::postgres
