// SPDX-License-Identifier: Apache-2.0
// OpenSSL as the other opinion on ClientHellos: the name that the firewall reads must be the name
// that a server would serve. A hello that the two read differently is how a forged name would slip
// through (I2, FW-074, R-006).
#include <gtest/gtest.h>
#include <openssl/bio.h>
#include <openssl/ssl.h>

#include <memory>
#include <random>

#include "support/exact.h"
#include "support/hello.h"
#include "tls/client_hello.h"

namespace sallyport::tls {
namespace {

using test::Exact;
using test::Hello;

using Ctx = std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)>;
using Ssl = std::unique_ptr<SSL, decltype(&SSL_free)>;

// What OpenSSL, as a client, sends first.
std::string openssl_hello(const char* name, std::string_view alpn, int max_version = 0) {
  const Ctx ctx(SSL_CTX_new(TLS_client_method()), SSL_CTX_free);
  const Ssl ssl(SSL_new(ctx.get()), SSL_free);
  if (name) SSL_set_tlsext_host_name(ssl.get(), name);
  if (!alpn.empty()) {
    SSL_set_alpn_protos(ssl.get(), reinterpret_cast<const unsigned char*>(alpn.data()),
                        static_cast<unsigned>(alpn.size()));
  }
  if (max_version) SSL_set_max_proto_version(ssl.get(), max_version);
  BIO* out = BIO_new(BIO_s_mem());
  SSL_set_bio(ssl.get(), BIO_new(BIO_s_mem()), out);
  SSL_set_connect_state(ssl.get());
  SSL_do_handshake(ssl.get());
  char* data = nullptr;
  const long size = BIO_get_mem_data(out, &data);
  return {data, static_cast<std::size_t>(size)};
}

struct Seen {
  bool asked = false;
  std::string name;
};
int note_server_name(SSL* ssl, int*, void* arg) {
  auto& seen = *static_cast<Seen*>(arg);
  const char* name = SSL_get_servername(ssl, TLSEXT_NAMETYPE_host_name);
  seen.asked = true;
  seen.name = name ? name : "";
  return SSL_TLSEXT_ERR_ALERT_FATAL;
}

// The name that OpenSSL, as a server, would choose a certificate by; nullopt if it refuses the
// hello before that.
std::optional<std::string> openssl_served_name(std::string_view bytes) {
  Seen seen;
  const Ctx ctx(SSL_CTX_new(TLS_server_method()), SSL_CTX_free);
  SSL_CTX_set_tlsext_servername_arg(ctx.get(), &seen);
  SSL_CTX_set_tlsext_servername_callback(ctx.get(), note_server_name);
  const Ssl ssl(SSL_new(ctx.get()), SSL_free);
  BIO* in = BIO_new(BIO_s_mem());
  BIO_write(in, bytes.data(), static_cast<int>(bytes.size()));
  SSL_set_bio(ssl.get(), in, BIO_new(BIO_s_mem()));
  SSL_set_accept_state(ssl.get());
  SSL_do_handshake(ssl.get());
  if (!seen.asked) return std::nullopt;
  return seen.name;
}

// FW-074, R-007
TEST(ClientHelloOpenssl, a_real_client_is_read) {
  const auto hello =
      read_client_hello(Exact(openssl_hello("api.example.com", "\x02h2\x08http/1.1")));
  ASSERT_TRUE(hello) << hello.error().why;
  EXPECT_EQ(hello->server_name, "api.example.com");
  EXPECT_TRUE(hello->offers("h2"));
  EXPECT_EQ(hello->versions.front(), TLS1_3_VERSION);
  const auto nameless = read_client_hello(Exact(openssl_hello(nullptr, "", TLS1_2_VERSION)));
  ASSERT_TRUE(nameless) << nameless.error().why;
  EXPECT_FALSE(nameless->server_name);
}

//
TEST(ClientHelloOpenssl, every_truncation_of_a_real_hello_waits_for_more) {
  const std::string bytes = openssl_hello("api.example.com", "\x02h2");
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    const auto hello = read_client_hello(Exact(std::string_view(bytes).substr(0, size)));
    ASSERT_FALSE(hello);
    ASSERT_EQ(hello.error().stop, ParseStop::need_more) << size;
  }
}

// random damage to real hellos. Either somebody refuses, or both read the same name.
TEST(ClientHelloOpenssl, no_hello_is_read_with_another_name_than_the_server_serves) {
  std::mt19937 random(20240601);
  const std::vector<std::string> seeds{
      openssl_hello("allowed.example", "\x02h2"),
      openssl_hello("allowed.example", "", TLS1_2_VERSION),
      Hello().sni("allowed.example").versions({0x0304}).bytes(),
      Hello()
          .extension(0, test::with_u16(test::sni_entry("allowed.example") +
                                       test::sni_entry("denied.example")))
          .bytes(),
      Hello().sni("allowed.example").sni("denied.example").bytes(),
      Hello().sni(std::string("allowed.example\0.denied.example", 31)).bytes()};
  int compared = 0;
  for (int round = 0; round < 6000; ++round) {
    std::string bytes = seeds[random() % seeds.size()];
    for (unsigned edits = random() % 4; edits > 0; --edits) {
      const std::size_t at = random() % bytes.size();
      switch (random() % 3) {
        case 0:
          bytes[at] = static_cast<char>(random());
          break;
        case 1:
          bytes[at] = static_cast<char>(bytes[at] + (random() % 2 ? 1 : -1));
          break;
        default:
          std::swap(bytes[at], bytes[random() % bytes.size()]);
      }
    }
    const auto ours = read_client_hello(Exact(bytes));
    if (!ours) continue;
    const auto theirs = openssl_served_name(bytes);
    if (!theirs) continue;
    ++compared;
    std::string folded = *theirs;
    std::ranges::transform(folded, folded.begin(),
                           [](char c) { return c >= 'A' && c <= 'Z' ? char(c + 32) : c; });
    if (folded.ends_with('.')) folded.pop_back();
    if (ours->address_as_name) continue;
    ASSERT_EQ(ours->server_name.value_or(""), folded);
  }
  EXPECT_GT(compared, 1000);  // the property was really exercised
}

}  // namespace
}  // namespace sallyport::tls
