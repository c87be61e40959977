// SPDX-License-Identifier: Apache-2.0
// Postgres through the firewall: it answers in the server's place until it knows the name.
#include "firewall/session_fixture.h"

namespace sallyport::firewall {
namespace {

using test::text;
using testing::HasSubstr;
using testing::StartsWith;

constexpr std::string_view kSsl("\x00\x00\x00\x08\x04\xd2\x16\x2f", 8);
constexpr std::string_view kGss("\x00\x00\x00\x08\x04\xd2\x16\x30", 8);
constexpr std::string_view kStartup("\x00\x00\x00\x11\x00\x03\x00\x00user\x00me\x00\x00", 17);

class PostgresSession : public test::SessionFixture {
 protected:
  PostgresSession() { apply(R"({"allow":["allowed.example"]})"); }
  void ask(std::string_view request, std::string_view answer) {
    ASSERT_TRUE(send_all(guest, request));
    ASSERT_EQ(receive(guest, 1).bytes, answer);
  }
  // As far as the server's turn to say whether it speaks TLS.
  void as_far_as_the_server() {
    connect();
    ask(kSsl, "S");
    ASSERT_TRUE(send_all(guest, hello("allowed.example")));
    ASSERT_TRUE(origin_reached());
    ASSERT_EQ(receive(upstream, 8).bytes, kSsl);
  }
};

// FW-090, FW-091, FW-097
TEST_F(PostgresSession, an_allowed_name_goes_on_to_the_server_untouched) {
  as_far_as_the_server();
  ASSERT_TRUE(send_all(upstream, "S"));
  const std::string bytes = hello("allowed.example");
  EXPECT_TRUE(receive(upstream, bytes.size()).bytes == bytes);
  ASSERT_TRUE(send_all(upstream, "server hello"));
  EXPECT_EQ(receive(guest, 12).bytes, "server hello");
  guest.reset();
  upstream.reset();
  EXPECT_EQ(text(line(), "protocol"), "postgres");
  EXPECT_EQ(text(line(), "verdict"), "allow");
}

// FW-092
TEST_F(PostgresSession, a_denied_name_gets_an_alert_and_the_server_no_byte) {
  connect();
  ask(kSsl, "S");
  ASSERT_TRUE(send_all(guest, hello("denied.example")));
  EXPECT_EQ(receive(guest).bytes, alert(test::kAccessDenied));
  EXPECT_TRUE(origin_untouched());
}

// FW-094, R-074
TEST_F(PostgresSession, encryption_by_gss_is_declined_and_tls_goes_on) {
  connect();
  ask(kGss, "N");
  ask(kSsl, "S");
  ASSERT_TRUE(send_all(guest, hello("allowed.example")));
  ASSERT_TRUE(origin_reached());
}

// R-074
TEST_F(PostgresSession, requests_may_come_byte_by_byte) {
  connect();
  for (const char byte : kSsl) {
    ASSERT_TRUE(send_all(guest, std::string_view(&byte, 1)));
    io.restart();
    io.poll();
  }
  EXPECT_EQ(receive(guest, 1).bytes, "S");
}

// FW-095: a client that insists on GSS goes no further, as it has been told no.
TEST_F(PostgresSession, asking_for_gss_again_closes_the_connection) {
  connect();
  ask(kGss, "N");
  ASSERT_TRUE(send_all(guest, kGss));
  EXPECT_EQ(receive(guest).bytes, "");
  EXPECT_EQ(text(line(), "reason"), "malformed_hello");
}

// FW-093
TEST_F(PostgresSession, a_session_in_clear_is_refused_in_words_that_psql_shows) {
  connect();
  ASSERT_TRUE(send_all(guest, kStartup));
  const auto got = receive(guest);
  EXPECT_THAT(got.bytes, StartsWith("E"));
  EXPECT_THAT(got.bytes, HasSubstr("FATAL"));
  EXPECT_THAT(got.bytes, HasSubstr("not_tls"));
  EXPECT_TRUE(origin_untouched());
  EXPECT_EQ(text(line(), "protocol"), "postgres");
}

// FW-093: and passes where the address is allowed.
TEST_F(PostgresSession, a_session_in_clear_passes_by_range) {
  apply(R"({"subnets":{"allow":["198.18.0.0/24"]}})");
  connect();
  ASSERT_TRUE(send_all(guest, kStartup));
  ASSERT_TRUE(origin_reached());
  EXPECT_EQ(receive(upstream, kStartup.size()).bytes, kStartup);
}

// R-075
TEST_F(PostgresSession, a_client_without_server_name_is_denied_with_that_reason) {
  connect();
  ask(kSsl, "S");
  ASSERT_TRUE(send_all(guest, test::record(test::Hello().message())));
  EXPECT_EQ(receive(guest).bytes, alert(test::kAccessDenied));
  EXPECT_EQ(text(line(), "reason"), "no_server_name");
  EXPECT_EQ(text(line(), "protocol"), "postgres");
}

// FW-096, R-076: 'N', an error, a close, two bytes: never a session in clear.
TEST_F(PostgresSession, a_server_that_does_not_agree_to_tls_gets_nothing_more) {
  for (const std::string& answer :
       {std::string("N"), std::string("E\0\0\0\x08S!\0\0", 9), std::string(), std::string("Sx")}) {
    as_far_as_the_server();
    if (answer.empty())
      ::shutdown(upstream.get(), SHUT_WR);
    else
      ASSERT_TRUE(send_all(upstream, answer));
    EXPECT_EQ(receive(upstream).bytes, "");
    EXPECT_EQ(receive(guest).bytes, alert(test::kInternalError));
    EXPECT_EQ(text(line(), "reason"), "upstream_refused_tls");
  }
}

// R-076
TEST_F(PostgresSession, a_server_that_says_nothing_is_given_up_at_a_deadline) {
  room.limits.upstream_answer = std::chrono::milliseconds(20);
  as_far_as_the_server();
  EXPECT_EQ(receive(guest).bytes, alert(test::kInternalError));
}

// R-073
TEST_F(PostgresSession, tls_without_negotiation_is_ordinary_tls) {
  connect();
  const std::string bytes =
      test::record(test::Hello().sni("allowed.example").alpn({"postgresql"}).message());
  ASSERT_TRUE(send_all(guest, bytes));
  ASSERT_TRUE(origin_reached());
  EXPECT_TRUE(receive(upstream, bytes.size()).bytes == bytes);
}

}  // namespace
}  // namespace sallyport::firewall
