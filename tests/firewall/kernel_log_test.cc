// SPDX-License-Identifier: Apache-2.0
// Egress lines from netlink messages, handed in through socket pairs.
#include "firewall/kernel_log.h"

#include <gmock/gmock.h>
#include <sys/socket.h>

#include <boost/asio/io_context.hpp>

#include "firewall/egress_lines.h"
#include "firewall/netlink_messages.h"
#include "policy/policy_json.h"

namespace sallyport::firewall {
namespace {

using test::text;

class KernelLogTest : public testing::Test {
 protected:
  KernelLogTest() : kernel_(io_.get_executor(), pair(nflog_), pair(conntrack_), gate_, log_.audit) {
    kernel_.start();
    gate_.prepare(3, policy::parse_policy(
                         R"({"subnets":{"allow":["198.18.0.0/15"],"deny":["198.18.9.0/24"]}})")
                         .value());
    EXPECT_TRUE(gate_.commit(3));
    gate_.set_boundary(policy::Boundary({}, {*Cidr::parse("198.18.0.0/15")}, {}));
  }
  ~KernelLogTest() override {
    kernel_.stop();
    io_.restart();
    io_.poll();
  }
  void from_kernel(const Fd& fd, std::string_view bytes) {
    ASSERT_EQ(::send(fd.get(), bytes.data(), bytes.size(), 0), static_cast<ssize_t>(bytes.size()));
    io_.restart();
    io_.poll();
  }
  void refused(std::string_view reason, std::string_view destination, std::uint16_t port = 80,
               std::uint8_t protocol = 6) {
    from_kernel(nflog_, test::nflog("sp:" + std::string(reason),
                                    test::packet4(protocol, "10.209.0.2", destination,
                                                  test::ports(40000, port))));
  }
  static Fd pair(Fd& ours) {
    int fds[2];
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds), 0);
    ours.reset(fds[0]);
    return Fd(fds[1]);
  }

  boost::asio::io_context io_;
  Gate gate_{io_};
  test::EgressLines log_;
  Fd nflog_, conntrack_;
  KernelLog kernel_;
};

TEST_F(KernelLogTest, a_refused_packet_leaves_a_line) {
  refused("denied_range", "198.18.9.1", 443, 17);
  ASSERT_EQ(log_.lines().size(), 1U);
  const auto line = log_.lines()[0];
  EXPECT_EQ(text(line, "via"), "kernel");
  EXPECT_EQ(text(line, "protocol"), "udp");
  EXPECT_EQ(text(line, "destination"), "198.18.9.1:443");
  EXPECT_EQ(text(line, "verdict"), "deny");
  EXPECT_EQ(text(line, "reason"), "denied_range");
  EXPECT_EQ(text(line, "entry"), "198.18.9.0/24");
  EXPECT_EQ(text(line, "policy"), "3");
  EXPECT_EQ(text(line, "name"), "null");
}

// R-025: 100,000 packets to denied ports do not fill the log.
TEST_F(KernelLogTest, repeated_refusals_become_a_count) {
  for (int i = 0; i < 1000; ++i) refused("boundary", "169.254.169.254");
  refused("boundary", "169.254.169.254", 81);
  EXPECT_EQ(log_.lines().size(), 2U);
  kernel_.stop();
  ASSERT_EQ(log_.lines().size(), 3U);
  EXPECT_THAT(text(log_.lines()[2], "detail"), testing::HasSubstr("999 more"));
  EXPECT_EQ(text(log_.lines()[2], "reason"), "boundary");
}

TEST_F(KernelLogTest, other_protocols_are_named_by_number) {
  refused("protocol_not_allowed", "198.18.0.1", 0, 47);
  EXPECT_EQ(text(log_.lines().at(0), "protocol"), "other");
  EXPECT_EQ(text(log_.lines().at(0), "detail"), "IP protocol 47");
  EXPECT_EQ(text(log_.lines().at(0), "destination"), "198.18.0.1");
}

TEST_F(KernelLogTest, a_forwarded_flow_leaves_a_line_at_its_end) {
  from_kernel(conntrack_, test::destroyed({}));
  ASSERT_EQ(log_.lines().size(), 1U);
  const auto line = log_.lines()[0];
  EXPECT_EQ(text(line, "verdict"), "allow");
  EXPECT_EQ(text(line, "reason"), "allowed_range");
  EXPECT_EQ(text(line, "entry"), "198.18.0.0/15");
  EXPECT_EQ(text(line, "dialled"), "198.18.0.10:443");
  EXPECT_EQ(text(line, "bytes_up"), "1234");
  EXPECT_EQ(text(line, "bytes_down"), "56789");
  EXPECT_EQ(text(line, "duration_ms"), "2500");
  EXPECT_EQ(gate_.counters.bytes_down, 56789U);
}

TEST_F(KernelLogTest, flows_that_were_not_forwarded_are_ignored) {
  from_kernel(conntrack_, test::destroyed({.mark = 0}));
  EXPECT_TRUE(log_.lines().empty());
}

// D-15
TEST_F(KernelLogTest, a_flow_that_an_update_cut_says_so) {
  from_kernel(conntrack_, test::destroyed({.destination = "198.18.9.1"}));
  ASSERT_EQ(log_.lines().size(), 1U);
  EXPECT_EQ(text(log_.lines()[0], "verdict"), "allow");
  EXPECT_EQ(text(log_.lines()[0], "reason"), "policy_changed");
}

TEST_F(KernelLogTest, lost_records_are_told) {
  from_kernel(nflog_, test::message(NLMSG_OVERRUN, ""));
  EXPECT_EQ(text(log_.lines().at(0), "reason"), "records_lost");
}

TEST_F(KernelLogTest, stopping_reads_what_waits) {
  const std::string waiting = test::destroyed({});
  ASSERT_EQ(::send(conntrack_.get(), waiting.data(), waiting.size(), 0),
            static_cast<ssize_t>(waiting.size()));
  kernel_.stop();
  EXPECT_EQ(log_.lines().size(), 1U);
}

}  // namespace
}  // namespace sallyport::firewall
