// SPDX-License-Identifier: Apache-2.0
#include "tls/client_hello.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/exact.h"
#include "support/hello.h"

namespace sallyport::tls {
namespace {

using namespace std::string_literals;
using test::Exact;
using test::Hello;
using test::record;
using test::records;
using test::sni_entry;
using test::u16;
using test::u24;
using test::u8;
using test::with_u16;
using test::with_u8;
using testing::ElementsAre;

std::expected<ClientHello, HelloStop> read(std::string_view bytes) {
  return read_client_hello(Exact(bytes));
}

std::string name_in(std::string_view bytes) {
  const auto hello = read(bytes);
  if (!hello) return "stopped: " + std::string(hello.error().why);
  return hello->server_name.value_or("none");
}
void expect_refused(std::string_view bytes, Alert alert, std::string_view why) {
  const auto hello = read(bytes);
  ASSERT_FALSE(hello) << why;
  EXPECT_EQ(hello.error().stop, ParseStop::malformed) << why;
  EXPECT_EQ(hello.error().alert, alert) << why;
  EXPECT_EQ(hello.error().why, why);
}
void expect_need_more(std::string_view bytes) {
  const auto hello = read(bytes);
  ASSERT_FALSE(hello) << bytes.size();
  EXPECT_EQ(hello.error().stop, ParseStop::need_more) << bytes.size() << " " << hello.error().why;
}
Hello with_sni_body(std::string_view body) { return Hello().extension(0, body); }

// FW-074
TEST(ClientHello, the_server_name_is_read) {
  const auto hello = read(
      Hello().sni("api.example.com").alpn({"h2", "http/1.1"}).versions({0x0304, 0x0303}).bytes());
  ASSERT_TRUE(hello);
  EXPECT_EQ(hello->server_name, "api.example.com");
  EXPECT_THAT(hello->versions, ElementsAre(0x0304, 0x0303));
  EXPECT_TRUE(hello->offers("h2"));
  EXPECT_TRUE(hello->offers("http/1.1"));
  EXPECT_FALSE(hello->offers("http"));
  EXPECT_FALSE(hello->ech);
  EXPECT_EQ(hello->alert_version, 0x0303);
}

// a 1.7 KB hello with a post-quantum key share, cut at every offset.
TEST(ClientHello, every_cut_between_segments_gives_the_same_answer) {
  const std::string bytes =
      Hello().extension(51, std::string(1216, 'k')).sni("allowed.example").padded_to(1700).bytes();
  for (std::size_t cut = 0; cut < bytes.size(); ++cut) {
    ClientHelloReader reader;
    const auto first = reader.read(Exact(bytes.substr(0, cut)));
    ASSERT_FALSE(first);
    ASSERT_EQ(first.error().stop, ParseStop::need_more) << cut;
    const auto second = reader.read(Exact(bytes));
    ASSERT_TRUE(second) << cut;
    ASSERT_EQ(second->server_name, "allowed.example") << cut;
    ASSERT_EQ(second->size, bytes.size());
  }
}

//
TEST(ClientHello, one_byte_at_a_time_gives_the_same_answer) {
  const std::string bytes = Hello().sni("allowed.example").padded_to(40000).bytes();
  ClientHelloReader reader;
  for (std::size_t size = 1; size < bytes.size(); ++size) {
    const auto part = reader.read(as_bytes(bytes).first(size));
    ASSERT_FALSE(part);
    ASSERT_EQ(part.error().stop, ParseStop::need_more) << size;
  }
  const auto whole = reader.read(as_bytes(bytes));
  ASSERT_TRUE(whole);
  EXPECT_EQ(whole->server_name, "allowed.example");
}

//
TEST(ClientHello, records_are_reassembled) {
  const std::string message = Hello().sni("allowed.example").versions({0x0304}).message();
  EXPECT_EQ(name_in(record(message.substr(0, message.size() - 1)) +
                    record(message.substr(message.size() - 1))),
            "allowed.example");
  const std::size_t in_name = message.find("allowed") + 3;
  EXPECT_EQ(name_in(record(message.substr(0, in_name)) + record(message.substr(in_name))),
            "allowed.example");
  EXPECT_EQ(name_in(records(message, (message.size() + 19) / 20)), "allowed.example");
  for (std::size_t size = 1; size <= message.size(); ++size) {
    ASSERT_EQ(name_in(records(message, size)), "allowed.example") << size;
  }
}

// the header of the handshake message itself may be cut.
TEST(ClientHello, every_truncation_of_a_hello_in_small_records_waits_for_more) {
  const std::string bytes = records(Hello().sni("allowed.example").message(), 3);
  for (std::size_t size = 0; size < bytes.size(); ++size) expect_need_more(bytes.substr(0, size));
}

//
TEST(ClientHello, a_name_that_ends_on_the_last_byte_is_found) {
  const std::string bytes = Hello().versions({0x0304}).sni("edge.example").bytes();
  ASSERT_TRUE(bytes.ends_with("edge.example"));
  EXPECT_EQ(name_in(bytes), "edge.example");
  for (std::size_t missing = 1; missing <= 3; ++missing)
    expect_need_more(bytes.substr(0, bytes.size() - missing));
}

//
TEST(ClientHello, lengths_that_overrun_by_one_are_decode_errors) {
  const auto name = "edge.example"s;
  expect_refused(with_sni_body(u16(name.size() + 3) + u8(0) + u16(name.size() + 1) + name).bytes(),
                 Alert::decode_error, "malformed server_name");
  expect_refused(with_sni_body(u16(name.size() + 4) + sni_entry(name)).bytes(), Alert::decode_error,
                 "malformed server_name");
  const std::string extensions = u16(0) + u16(name.size() + 6) + with_u16(sni_entry(name));
  const std::string head =
      u16(0x0303) + std::string(32, 'r') + with_u8("") + with_u16("\x13\x01") + with_u8("\0"s);
  const auto hello = [&](const std::string& body) {
    return record(u8(1) + u24(body.size()) + body);
  };
  expect_refused(hello(head + with_u16(extensions)), Alert::decode_error,
                 "extension overruns the hello");
  const std::string good = u16(0) + with_u16(with_u16(sni_entry(name)));
  EXPECT_EQ(name_in(hello(head + with_u16(good))), name);
  expect_refused(hello(head + u16(good.size() + 1) + good), Alert::decode_error,
                 "extensions do not fill the hello");
  expect_refused(hello(head + u16(good.size() - 1) + good), Alert::decode_error,
                 "extensions do not fill the hello");
  expect_refused(hello(head + "\0"s), Alert::decode_error, "extensions do not fill the hello");
}

//
TEST(ClientHello, large_hellos_are_read_up_to_the_limit) {
  for (const std::size_t size : {8193UL, 16384UL, 40000UL, 65535UL, kMaxClientHello}) {
    Hello hello = Hello().sni("large.example");
    // Two paddings of different type, since one extension is limited to 64 KiB less the rest.
    if (size > 30000) hello.extension(0x7777, std::string(20000, 'x'));
    EXPECT_EQ(name_in(hello.padded_to(size).bytes()), "large.example") << size;
  }
}

//
TEST(ClientHello, a_declared_length_over_the_limit_is_refused_at_once) {
  for (const std::size_t declared :
       {kMaxClientHello - 3, std::size_t{200} << 10, (std::size_t{16} << 20) - 1}) {
    const auto hello = read(u8(22) + u16(0x0301) + u16(16384) + u8(1) + u24(declared));
    ASSERT_FALSE(hello);
    EXPECT_EQ(hello.error().stop, ParseStop::too_large) << declared;
  }
  expect_need_more(u8(22) + u16(0x0301) + u16(16384) + u8(1) + u24(kMaxClientHello - 4));
}

// what is kept is bounded too, however small the records.
TEST(ClientHello, record_headers_count_towards_the_bytes_kept) {
  const std::string bytes = records(Hello().sni("tiny.example").padded_to(20000).message(), 1);
  ClientHelloReader reader;
  for (std::size_t size = 0;; ++size) {
    ASSERT_LT(size, kMaxHelloBytes);
    const auto hello = reader.read(as_bytes(bytes).first(size));
    ASSERT_FALSE(hello);
    if (hello.error().stop == ParseStop::too_large) break;
    ASSERT_EQ(hello.error().stop, ParseStop::need_more);
  }
}

//
TEST(ClientHello, the_name_is_folded_to_lower_case) {
  EXPECT_EQ(name_in(Hello().sni("API.Example.COM").bytes()), "api.example.com");
}

// D-03
TEST(ClientHello, one_trailing_dot_is_dropped) {
  EXPECT_EQ(name_in(Hello().sni("example.com.").bytes()), "example.com");
  expect_refused(Hello().sni("example.com..").bytes(), Alert::illegal_parameter,
                 "server name is no host name");
}

//
TEST(ClientHello, empty_server_names_are_refused) {
  expect_refused(with_sni_body("").bytes(), Alert::decode_error, "malformed server_name");
  expect_refused(with_sni_body(u16(0)).bytes(), Alert::decode_error, "malformed server_name");
  expect_refused(Hello().sni("").bytes(), Alert::illegal_parameter, "empty server name");
  expect_refused(Hello().sni(".").bytes(), Alert::illegal_parameter, "server name is no host name");
}

//
TEST(ClientHello, two_server_names_are_refused_in_either_order) {
  const auto two = [](std::string_view a, std::string_view b) {
    return with_sni_body(with_u16(sni_entry(a) + sni_entry(b))).bytes();
  };
  expect_refused(two("allowed.example", "denied.example"), Alert::illegal_parameter,
                 "two server names");
  expect_refused(two("denied.example", "allowed.example"), Alert::illegal_parameter,
                 "two server names");
  expect_refused(two("allowed.example", "allowed.example"), Alert::illegal_parameter,
                 "two server names");
  expect_refused(Hello().sni("allowed.example").sni("denied.example").bytes(),
                 Alert::illegal_parameter, "extension given twice");
  expect_refused(with_sni_body(with_u16(u8(1) + with_u16("allowed.example"))).bytes(),
                 Alert::illegal_parameter, "server name of unknown type");
}

// R-006, D-03
TEST(ClientHello, names_that_are_no_host_names_are_refused) {
  const std::string label63(63, 'a');
  const std::string long253 = label63 + "." + label63 + "." + label63 + "." + std::string(61, 'b');
  ASSERT_EQ(long253.size(), 253U);
  EXPECT_EQ(name_in(Hello().sni(long253).bytes()), long253);
  EXPECT_EQ(name_in(Hello().sni(long253 + ".").bytes()), long253);
  for (const std::string& name : {long253 + "b",
                                  std::string(300, 'a'),
                                  label63 + "a.example",
                                  "a\0b.example"s,
                                  "allowed.example\0"s,
                                  "allowed.example\0.denied.example"s,
                                  "a b.example"s,
                                  " a.example"s,
                                  "a.example "s,
                                  "a..example"s,
                                  ".example"s,
                                  "b\xc3\xbc"
                                  "cher.example"s,
                                  "*.example"s,
                                  "a/b"s,
                                  "a.example:443"s,
                                  "user@a.example"s,
                                  "[::1]"s,
                                  "1.2.3.4.5"s,
                                  "0x7f.0.0.1"s,
                                  "127.1"s}) {
    expect_refused(Hello().sni(name).bytes(), Alert::illegal_parameter,
                   "server name is no host name");
  }
}

// D-03: an address is no name; who lets connections without a name pass may pass this one.
TEST(ClientHello, an_ip_literal_is_no_name) {
  for (const auto* name : {"198.18.0.10", "2001:db8::1", "::ffff:10.0.0.1"}) {
    const auto hello = read(Hello().sni(name).bytes());
    ASSERT_TRUE(hello) << name;
    EXPECT_FALSE(hello->server_name);
    EXPECT_TRUE(hello->address_as_name);
  }
}

// R-007, FW-083
TEST(ClientHello, a_hello_without_server_name_is_told_apart_from_a_malformed_one) {
  const auto hello = read(Hello().versions({0x0304}).bytes());
  ASSERT_TRUE(hello);
  EXPECT_FALSE(hello->server_name);
  EXPECT_FALSE(hello->address_as_name);
}

TEST(ClientHello, a_hello_may_end_before_the_extensions) {
  const std::string body =
      u16(0x0301) + std::string(32, 'r') + with_u8("") + with_u16("\x13\x01") + with_u8("\0"s);
  const auto hello = read(record(u8(1) + u24(body.size()) + body));
  ASSERT_TRUE(hello);
  EXPECT_FALSE(hello->server_name);
  EXPECT_THAT(hello->versions, ElementsAre(0x0301));
  EXPECT_EQ(hello->alert_version, 0x0301);
}

//
TEST(ClientHello, grease_and_unknown_extensions_are_ignored) {
  Hello hello;
  hello.extension(0x0a0a, "");
  hello.ciphers("\x1a\x1a\x13\x01");
  for (std::size_t i = 0; i < 50; ++i) hello.extension(0x5000 + i, std::string(i, 'u'));
  hello.sni("grease.example")
      .versions({0x2a2a, 0x0304})
      .alpn({"\x3a\x3a", "h2"})
      .extension(0xfafa, "x");
  const auto read_back = read(hello.bytes());
  ASSERT_TRUE(read_back) << read_back.error().why;
  EXPECT_EQ(read_back->server_name, "grease.example");
  EXPECT_THAT(read_back->versions, ElementsAre(0x0304));
  EXPECT_TRUE(read_back->offers("h2"));
}

// FW-085: only the outer name is ever looked at.
TEST(ClientHello, encrypted_client_hello_is_noticed_and_the_outer_name_counts) {
  const auto hello =
      read(Hello().sni("outer.example").extension(0xfe0d, std::string(200, 'e')).bytes());
  ASSERT_TRUE(hello);
  EXPECT_TRUE(hello->ech);
  EXPECT_EQ(hello->server_name, "outer.example");
}

TEST(ClientHello, malformed_fields_are_refused) {
  expect_refused(Hello().session(std::string(33, 's')).bytes(), Alert::decode_error,
                 "malformed session id");
  expect_refused(Hello().ciphers("").bytes(), Alert::decode_error, "malformed cipher suites");
  expect_refused(Hello().ciphers("abc").bytes(), Alert::decode_error, "malformed cipher suites");
  expect_refused(Hello().compressions("").bytes(), Alert::decode_error,
                 "malformed compression methods");
  expect_refused(Hello().extension(16, "").bytes(), Alert::decode_error, "malformed ALPN");
  expect_refused(Hello().extension(16, u16(0)).bytes(), Alert::decode_error, "malformed ALPN");
  expect_refused(Hello().alpn({""}).bytes(), Alert::decode_error, "malformed ALPN");
  expect_refused(Hello().extension(16, with_u16("\x05h2")).bytes(), Alert::decode_error,
                 "malformed ALPN");
  expect_refused(Hello().versions({}).bytes(), Alert::decode_error, "malformed supported_versions");
  expect_refused(Hello().extension(43, with_u8("\x03\x04\x03")).bytes(), Alert::decode_error,
                 "malformed supported_versions");
  expect_refused(Hello().legacy_version(0x0203).bytes(), Alert::protocol_version,
                 "unknown TLS version");
  expect_refused(Hello().extension(0x1234, "").extension(0x1234, "").bytes(),
                 Alert::illegal_parameter, "extension given twice");
}

TEST(ClientHello, records_that_are_no_hello_are_refused) {
  const std::string message = Hello().sni("a.example").message();
  expect_refused(record(u8(2) + message.substr(1)), Alert::unexpected_message,
                 "handshake does not begin with a ClientHello");
  expect_refused(record(""), Alert::decode_error, "record of impossible length");
  expect_refused(u8(22) + u16(0x0301) + u16(16385), Alert::decode_error,
                 "record of impossible length");
  expect_refused(record(message, 0x0401), Alert::protocol_version, "unknown record version");
  // A record of another type between two parts of the hello.
  expect_refused(
      record(message.substr(0, 20)) + "\x14\x03\x01\x00\x01\x01"s + record(message.substr(20)),
      Alert::unexpected_message, "record is no handshake");
  expect_refused(record(message.substr(0, 20)) + record("") + record(message.substr(20)),
                 Alert::decode_error, "record of impossible length");
}

TEST(ClientHello, a_second_message_in_the_record_of_the_hello_is_refused_however_the_bytes_arrive) {
  const std::string message = Hello().sni("allowed.example").message();
  const std::string bytes = record(message + Hello().sni("denied.example").message());
  expect_refused(bytes, Alert::unexpected_message, "bytes behind the hello in its record");
  expect_refused(bytes.substr(0, 5 + message.size()), Alert::unexpected_message,
                 "bytes behind the hello in its record");
}

TEST(ClientHello, bytes_behind_the_record_are_left_alone) {
  const std::string bytes = Hello().sni("early.example").bytes();
  const auto hello = read(bytes +
                          "\x17\x03\x03\x00\x05"
                          "early");
  ASSERT_TRUE(hello);
  EXPECT_EQ(hello->size, bytes.size());
}

//
TEST(ClientHello, first_bytes_that_are_not_tls_are_known_at_once) {
  for (const std::string& bytes : {"\x80\x2e\x01\x03\x01"s, "GET / HTTP/1.1\r\n"s, "SSH-2.0-x\r\n"s,
                                   "EHLO x\r\n"s, std::string(64, '\0'), "\x16\x02\x00"s,
                                   "\x16\x03\x05"s, "\x15\x03\x01"s, "\x16\x16\x16"s}) {
    EXPECT_EQ(looks_like_tls(Exact(bytes)), FirstBytes::other) << bytes;
  }
  for (const std::string& bytes : {""s, "\x16"s, "\x16\x03"s}) {
    EXPECT_EQ(looks_like_tls(Exact(bytes)), FirstBytes::need_more);
  }
  for (const std::string& bytes : {"\x16\x03\x01"s, "\x16\x03\x00"s, "\x16\x03\x03\x02"s}) {
    EXPECT_EQ(looks_like_tls(Exact(bytes)), FirstBytes::tls);
  }
  expect_need_more("\x16\x03\x01");  // then EOF: the caller denies
}

// R-012, D-06
TEST(Alert, is_one_fatal_record_of_the_clients_version) {
  EXPECT_EQ(render_alert(Alert::access_denied), "\x15\x03\x01\x00\x02\x02\x31"s);
  EXPECT_EQ(render_alert(Alert::unrecognized_name, 0x0303), "\x15\x03\x03\x00\x02\x02\x70"s);
  EXPECT_EQ(render_alert(Alert::decode_error, 0x0303), "\x15\x03\x03\x00\x02\x02\x32"s);
  EXPECT_EQ(render_alert(Alert::illegal_parameter, 0x0302), "\x15\x03\x02\x00\x02\x02\x2f"s);
}

}  // namespace
}  // namespace sallyport::tls
