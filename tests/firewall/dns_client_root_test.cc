// SPDX-License-Identifier: Apache-2.0
// The whole path with a real client: dig -> redirect of port 53 -> DNS service -> libunbound -> an
// authority, in a network namespace of this process alone. Whatever resolver dig names, the service
// answers (R-082, FW-072).
#include <gmock/gmock.h>
#include <sched.h>
#include <sys/socket.h>

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <cstdlib>
#include <future>
#include <thread>

#include "dns/message.h"
#include "firewall/dns_service.h"
#include "firewall/egress_lines.h"
#include "net/unbound_resolver.h"
#include "policy/policy_json.h"
#include "support/dns_authority.h"

namespace sallyport::firewall {
namespace {

using test::a_record;
using test::cname_record;
using test::DnsReply;
using test::text;
using testing::HasSubstr;
using testing::Not;

constexpr const char* kNetwork = R"(set -e
ip link set lo up
ip link add out0 type veth peer name out1
ip link set out0 up
ip link set out1 up
ip addr add 198.18.0.2/24 dev out0
ip addr add 2001:db8::2/64 dev out0 nodad
ip route add default via 198.18.0.1
ip -6 route add default via 2001:db8::1
nft -f - <<'END'
table inet t {
  chain out {
    type nat hook output priority -100;
    ip daddr 127.0.0.1 accept
    meta l4proto { tcp, udp } th dport 53 redirect to :5300
  }
}
END)";

DnsReply zone(const std::string& name, std::uint16_t type, unsigned number) {
  if (name == "allowed.example" && type == dns::kA)
    return {.answers = {cname_record(name, "x.cdn.test")}};
  if (name == "x.cdn.test" && type == dns::kA) return {.answers = {a_record(name, "198.18.0.10")}};
  if (name == "allowed.example" && type == dns::kHttps)
    return {
        .answers = {{name, dns::kHttps, 60,
                     std::string("\0\x01\0\0\x01\0\x03\x02h2\0\x05\0\x04\xde\xad\xbe\xef", 18)}}};
  if (name == "many.allowed.example" && type == dns::kA) {
    DnsReply reply;
    for (int i = 0; i < 42; ++i)
      reply.answers.push_back(a_record(name, "198.18.1." + std::to_string(i)));
    return reply;
  }
  if (name == "turn.allowed.example" && type == dns::kA)
    return {.answers = {a_record(name, "198.18.2." + std::to_string(number % 200), 0)}};
  if (name == "broken.allowed.example") return {.rcode = 2};
  if (name == "missing.allowed.example")
    return {.rcode = 3, .authority = test::no_data("example").authority};
  return test::no_data("example");
}

std::string output_of(const std::string& command) {
  std::string out;
  FILE* pipe = ::popen((command + " 2>&1").c_str(), "r");
  char buffer[4096];
  while (const std::size_t count = std::fread(buffer, 1, sizeof buffer, pipe))
    out.append(buffer, count);
  ::pclose(pipe);
  return out;
}

class DnsClientRootTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    ASSERT_EQ(::unshare(CLONE_NEWNET), 0) << "needs root";
    ASSERT_EQ(std::system(kNetwork), 0);
  }
  void SetUp() override {
    authority_.emplace(zone);
    auto made = UnboundResolver::make(io_.get_executor(), {authority_->endpoint()});
    ASSERT_TRUE(made);
    resolver_ = std::move(*made);
    gate_.prepare(
        1, policy::parse_policy(R"({"allow":["allowed.example","*.allowed.example"]})").value());
    ASSERT_TRUE(gate_.commit(1));
    DnsService::Sockets sockets;
    sockets.udp4 = bound(SOCK_DGRAM, "127.0.0.1");
    sockets.udp6 = bound(SOCK_DGRAM, "::1");
    sockets.tcp4 = bound(SOCK_STREAM, "127.0.0.1");
    sockets.tcp6 = bound(SOCK_STREAM, "::1");
    service_.emplace(io_.get_executor(), std::move(sockets), *resolver_, gate_, log_.audit);
    service_->start();
    loop_ = std::thread([this] { io_.run(); });
  }
  void TearDown() override {
    boost::asio::post(io_, [this] {
      service_->stop();
      resolver_.reset();
      work_.reset();
    });
    loop_.join();
  }
  static Fd bound(int type, const char* address) {
    sockaddr_storage storage{};
    const socklen_t length = Endpoint{*Address::parse(address), 5300}.to_sockaddr(storage);
    Fd fd(::socket(storage.ss_family, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    const int on = 1;
    ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    EXPECT_EQ(::bind(fd.get(), reinterpret_cast<sockaddr*>(&storage), length), 0);
    if (type == SOCK_STREAM) EXPECT_EQ(::listen(fd.get(), 16), 0);
    return fd;
  }
  static std::string dig(const std::string& arguments) {
    return output_of("dig +tries=1 +time=10 " + arguments);
  }
  std::vector<boost::json::object> lines() {
    std::promise<std::vector<boost::json::object>> promise;
    boost::asio::post(io_, [&] { promise.set_value(log_.lines()); });
    return promise.get_future().get();
  }

  boost::asio::io_context io_;
  std::optional<boost::asio::executor_work_guard<boost::asio::io_context::executor_type>> work_{
      io_.get_executor()};
  Gate gate_{io_};
  test::EgressLines log_;
  std::optional<test::DnsAuthority> authority_;
  std::unique_ptr<UnboundResolver> resolver_;
  std::optional<DnsService> service_;
  std::thread loop_;
};

// R-082: any resolver address, both families, both transports.
TEST_F(DnsClientRootTest, dig_is_answered_whatever_resolver_it_names) {
  for (const char* resolver :
       {"@198.18.8.8", "@2001:db8::8888", "@198.18.8.8 +tcp", "@2001:db8::8888 +tcp"}) {
    EXPECT_THAT(dig(std::string(resolver) + " +short allowed.example"),
                HasSubstr("x.cdn.test.\n198.18.0.10\n"))
        << resolver;
    const std::string denied = dig(std::string(resolver) + " data.evil.test TXT");
    EXPECT_THAT(denied, HasSubstr("status: NXDOMAIN")) << resolver;
    EXPECT_THAT(denied, HasSubstr("Blocked")) << "Extended DNS Error 15 (D-04)";
    EXPECT_THAT(denied, Not(HasSubstr("SOA"))) << resolver;
  }
  EXPECT_EQ(authority_->asked("data.evil.test", dns::kTxt), 0U) << "R-081";
}

TEST_F(DnsClientRootTest, a_denied_query_over_tcp_names_the_resolver_that_was_dialled) {
  dig("@198.18.8.8 +tcp evil.test");
  dig("@2001:db8::8888 +tcp www.evil.test");
  ASSERT_EQ(lines().size(), 2U);
  EXPECT_EQ(text(lines()[0], "destination"), "198.18.8.8:53");
  EXPECT_EQ(text(lines()[1], "destination"), "[2001:db8::8888]:53");
}

// R-078
TEST_F(DnsClientRootTest, a_long_answer_arrives_whole_after_tcp_fallback) {
  EXPECT_THAT(dig("@198.18.8.8 +noedns +ignore many.allowed.example"), HasSubstr(" tc "));
  const std::string whole = dig("@198.18.8.8 +noedns many.allowed.example");
  EXPECT_THAT(whole, HasSubstr("ANSWER: 42"));
  EXPECT_THAT(whole, HasSubstr("Truncated, retrying in TCP mode"));
}

// R-083
TEST_F(DnsClientRootTest, https_records_come_without_ech) {
  const std::string https = dig("@198.18.8.8 +short allowed.example HTTPS");
  EXPECT_THAT(https, HasSubstr("alpn=\"h2\""));
  EXPECT_THAT(https, Not(HasSubstr("ech")));
}

// R-079, R-086
TEST_F(DnsClientRootTest, failures_are_passed_and_ttl_zero_is_fresh) {
  EXPECT_THAT(dig("@198.18.8.8 broken.allowed.example"), HasSubstr("status: SERVFAIL"));
  EXPECT_THAT(dig("@198.18.8.8 missing.allowed.example"), HasSubstr("status: NXDOMAIN"));
  EXPECT_THAT(dig("@198.18.8.8 allowed.example AAAA"), HasSubstr("status: NOERROR"));
  for (int i = 0; i < 5; ++i)
    EXPECT_EQ(dig("@198.18.8.8 +short turn.allowed.example"),
              "198.18.2." + std::to_string(i) + "\n");
}

// D-05
TEST_F(DnsClientRootTest, zone_transfers_are_refused) {
  EXPECT_THAT(dig("@198.18.8.8 allowed.example AXFR"), HasSubstr("Transfer failed"));
  EXPECT_THAT(dig("@198.18.8.8 +notcp +noedns allowed.example ANY"), HasSubstr("status: REFUSED"));
}

}  // namespace
}  // namespace sallyport::firewall
