// SPDX-License-Identifier: Apache-2.0
// The listener's limits, tokens, and the small parsers before the resources.
#include "api/server.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <openssl/sha.h>
#include <sys/stat.h>

#include "api/auth.h"
#include "api/router.h"
#include "support/test_api.h"

namespace sallyport::api {
namespace {

class ServerTest : public test::ApiTest {};

TEST_F(ServerTest, the_socket_is_for_its_owner_and_group) {
  struct stat status{};
  ASSERT_EQ(::stat(socket.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0660U);
}

TEST_F(ServerTest, a_connection_serves_several_requests) {
  test::HttpConnection connection(socket);
  const std::string request = "GET /sallyport/v1/health HTTP/1.1\r\nHost: x\r\n\r\n";
  connection.send(request + request);  // pipelined
  EXPECT_NE(connection.read_until("}").find("200 OK"), std::string::npos);
  EXPECT_NE(connection.read_until("}").find("200 OK"), std::string::npos);
}

TEST_F(ServerTest, what_is_no_http_is_refused) {
  test::HttpConnection connection(socket);
  connection.send("\x16\x03\x01 hello\r\n\r\n");
  EXPECT_NE(connection.read_all().find("400"), std::string::npos);
}

TEST_F(ServerTest, a_header_without_end_is_cut) {
  test::HttpConnection connection(socket);
  connection.send("GET / HTTP/1.1\r\nX: ");
  EXPECT_EQ(connection.read_all(), "") << "closed by the header deadline";
}

TEST_F(ServerTest, large_headers_and_bodies_are_refused_unread) {
  test::HttpConnection connection(socket);
  connection.send("GET / HTTP/1.1\r\nX: " + std::string(100'000, 'x') + "\r\n\r\n");
  EXPECT_NE(connection.read_all().find("431"), std::string::npos);
  const std::string head =
      "POST /v2/sandboxes/sessions/sbx_a/stop HTTP/1.1\r\nHost: x\r\nContent-Length: "
      "3000000\r\n\r\n";
  test::HttpConnection large(socket);
  large.send(head);
  EXPECT_NE(large.read_all().find("413"), std::string::npos);
}

TEST_F(ServerTest, curl_gets_its_100_continue) {
  test::HttpConnection connection(socket);
  const std::string body = R"({"projectId":"p","name":"web"})";
  connection.send(
      "POST /v3/sandboxes HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nConnection: "
      "close\r\nContent-Length: " +
      std::to_string(body.size()) + "\r\n\r\n");
  EXPECT_NE(connection.read_until("\r\n\r\n").find("100 Continue"), std::string::npos);
  connection.send(body);
  EXPECT_NE(connection.read_all().find("200 OK"), std::string::npos);
}

std::string sha256_hex(const std::string& text) {
  unsigned char digest[32];
  SHA256(reinterpret_cast<const unsigned char*>(text.data()), text.size(), digest);
  std::string hex;
  for (const unsigned char byte : digest) {
    constexpr char kDigits[] = "0123456789abcdef";
    hex += kDigits[byte >> 4];
    hex += kDigits[byte & 15];
  }
  return hex;
}

class TokenTest : public test::ApiTest {
 protected:
  TokenTest() {
    ServerSettings settings;
    settings.listen = "tcp:127.0.0.1:0";
    settings.tokens = {*make_token("ops", sha256_hex("operator-token"), std::nullopt),
                       *make_token("one", sha256_hex("token-one"), "team-one"),
                       *make_token("two", sha256_hex("token-two"), "team-two")};
    tcp = std::make_unique<Server>(node.loop.context(), router, settings);
    CHECK(tcp->start().has_value());
  }
  test::HttpAnswer call_as(const std::string& token, const std::string& method,
                           const std::string& target, const std::string& body = "") {
    const Fd connection(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(tcp->port());
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    CHECK(::connect(connection.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
    const std::string request = test::render_http(
        method, target, body, token.empty() ? "" : "Authorization: Bearer " + token + "\r\n");
    CHECK(::send(connection.get(), request.data(), request.size(), 0) ==
          static_cast<ssize_t>(request.size()));
    std::string raw;
    char buffer[65536];
    while (true) {
      const ssize_t size = ::recv(connection.get(), buffer, sizeof buffer, 0);
      if (size <= 0) return test::parse_answer(raw);
      raw.append(buffer, static_cast<std::size_t>(size));
    }
  }
  std::unique_ptr<Server> tcp;
};

TEST_F(TokenTest, tcp_needs_a_known_token) {
  EXPECT_EQ(call_as("", "GET", "/v2/sandboxes").status, 401);
  EXPECT_EQ(call_as("wrong", "GET", "/v2/sandboxes").error_code(), "unauthorized");
  EXPECT_EQ(call_as("token-one", "GET", "/v2/sandboxes").status, 200);
  EXPECT_EQ(call_as("", "GET", "/sallyport/v1/health").status, 401);
}

// SB-010 at the API: a foreign sandbox looks like none.
TEST_F(TokenTest, a_team_sees_its_own_sandboxes_only) {
  const auto created =
      call_as("token-one", "POST", "/v3/sandboxes", R"({"projectId":"p","name":"web"})");
  ASSERT_EQ(created.status, 200) << created.body;
  const std::string id(created.json().at("session").at("id").as_string());
  EXPECT_EQ(call_as("token-one", "GET", "/v2/sandboxes/web?projectId=p").status, 200);
  EXPECT_EQ(call_as("token-two", "GET", "/v2/sandboxes/web?projectId=p").status, 404);
  EXPECT_EQ(call_as("token-two", "GET", "/v2/sandboxes/sessions/" + id).status, 404);
  EXPECT_EQ(call_as("token-two", "POST", "/v2/sandboxes/sessions/" + id + "/stop").status, 404);
  EXPECT_EQ(
      call_as("token-two", "POST", "/v2/sandboxes/sessions/" + id + "/cmd", R"({"command":"echo"})")
          .status,
      404);
  EXPECT_EQ(call_as("token-two", "POST", "/v2/sandboxes/sessions/" + id + "/network-policy",
                    R"({"mode":"allow-all"})")
                .status,
            404);
  EXPECT_EQ(call_as("token-two", "DELETE", "/v2/sandboxes/web?projectId=p").status, 404);
  EXPECT_EQ(call_as("token-two", "GET", "/sallyport/v1/sandboxes/web/egress?projectId=p").status,
            404);
  EXPECT_EQ(call_as("token-two", "GET", "/v2/sandboxes").json().at("sandboxes").as_array().size(),
            0U);
  EXPECT_EQ(
      call_as("token-two", "GET", "/v2/sandboxes/sessions").json().at("sessions").as_array().size(),
      0U);
  EXPECT_EQ(call_as("operator-token", "GET", "/v2/sandboxes/web?projectId=p").status, 200);
  const auto has_node = [&](const std::string& token) {
    return call_as(token, "GET", "/sallyport/v1/sandboxes/web?projectId=p")
        .json()
        .as_object()
        .contains("node");
  };
  EXPECT_TRUE(has_node("operator-token"));
  EXPECT_FALSE(has_node("token-one")) << "processes and paths are the operator's";
  EXPECT_EQ(call_as("token-two", "POST", "/sallyport/v1/images", R"({"name":"x"})").status, 403);
}

TEST(Listen, tcp_without_tokens_is_refused) {
  const test::TempDirectory directory;
  test::TestNode node(directory.path());
  Router router;
  Server server(node.loop.context(), router,
                {.listen = "tcp:127.0.0.1:0", .group = "", .tokens = {}});
  EXPECT_FALSE(server.start());
}

TEST(Token, hashes_are_checked_for_form) {
  EXPECT_FALSE(make_token("x", "abc", std::nullopt));
  EXPECT_FALSE(make_token("x", std::string(64, 'g'), std::nullopt));
  EXPECT_TRUE(make_token("x", std::string(64, 'a'), std::nullopt));
}

TEST(Authenticate, reads_the_scheme_without_case_and_nothing_else) {
  const std::vector<Token> tokens = {*make_token("x", sha256_hex("t"), std::nullopt)};
  EXPECT_TRUE(authenticate(tokens, "Bearer t"));
  EXPECT_TRUE(authenticate(tokens, "bearer t"));
  for (const char* header : {"", "t", "Bearer", "Bearer ", "Basic t", "Bearer  t", "Bearer t "})
    EXPECT_FALSE(authenticate(tokens, header)) << header;
}

TEST(Target, is_split_and_decoded) {
  const auto target = parse_target("/v2/sandboxes?tags=a:1&tags=b%3A2&empty=&x=a+b");
  ASSERT_TRUE(target);
  EXPECT_EQ(target->path, "/v2/sandboxes");
  ASSERT_EQ(target->query.size(), 4U);
  EXPECT_EQ(target->query[1].second, "b:2");
  EXPECT_EQ(target->query[3].second, "a b");
  for (const char* bad : {"", "x", "http://h/p", "/p?x=%", "/p?x=%zz", "/p?x=%00", "/p?x=%ff",
                          "/p?x=\xc3\xa9", "/p q", "/p?\x7f"})
    EXPECT_FALSE(parse_target(bad)) << bad;
}

TEST(RouterFind, words_win_over_names_and_segments_do_not_mix) {
  Router router;
  router.add({"GET", "/v2/sandboxes/sessions", nullptr});
  router.add({"GET", "/v2/sandboxes/{name}", nullptr});
  EXPECT_EQ(router.find("GET", "/v2/sandboxes/sessions").params.size(), 0U);
  EXPECT_EQ(router.find("GET", "/api/v2/sandboxes/a%20b").params.at("name"), "a b");
  EXPECT_EQ(router.find("GET", "/v2/sandboxes/").route, nullptr);
  EXPECT_EQ(router.find("GET", "/v2/sandboxes/a/b").route, nullptr);
  EXPECT_EQ(router.find("GET", "/v2/sandboxes/%zz").route, nullptr);
  EXPECT_TRUE(router.find("POST", "/v2/sandboxes/a").other_method);
}

}  // namespace
}  // namespace sallyport::api
