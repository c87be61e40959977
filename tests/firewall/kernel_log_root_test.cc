// SPDX-License-Identifier: Apache-2.0
// The kernel log on the kernel's own messages: a network namespace of this process alone, a ruleset
// that refuses one address and marks the rest as forwarded, real NFLOG and ctnetlink sockets.
#include <gmock/gmock.h>
#include <linux/netfilter/nfnetlink_log.h>
#include <linux/netlink.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <sys/socket.h>
#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <cstdlib>
#include <fstream>

#include "firewall/control.h"
#include "firewall/egress_lines.h"
#include "firewall/kernel_log.h"
#include "firewall/netlink_messages.h"
#include "policy/policy_json.h"

namespace sallyport::firewall {
namespace {

using test::text;

constexpr const char* kRules = R"(nft -f - <<'END'
table inet t {
  chain out {
    type filter hook output priority 0;
    ip daddr 198.18.0.1 log prefix "sp:boundary" group 100 snaplen 128 reject with icmpx admin-prohibited
    ip6 daddr 2001:db8::1 log prefix "sp:denied_range" group 100 snaplen 128 reject with icmpx admin-prohibited
    ct mark set 0x5a11
  }
}
END)";

class KernelLogRootTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(::unshare(CLONE_NEWNET), 0) << "needs root";
    run("ip link set lo up");
    run("ip addr add 198.18.0.2/24 dev lo && ip addr add 2001:db8::2/64 dev lo nodad");
    run(kRules);
    // Per namespace; without them bytes and times are 0.
    for (const char* name : {"nf_conntrack_acct", "nf_conntrack_timestamp"})
      std::ofstream(std::string("/proc/sys/net/netfilter/") + name) << "1";
    kernel_.emplace(io_.get_executor(), nflog_socket(), conntrack_socket(), gate_, log_.audit);
    kernel_->start();
    gate_.set_boundary(policy::Boundary({}, {*Cidr::parse("198.18.0.0/15")}, {}));
    gate_.prepare(1, policy::allow_all());
    ASSERT_TRUE(gate_.commit(1));
  }
  static void run(const std::string& command) {
    ASSERT_EQ(std::system(command.c_str()), 0) << command;
  }
  static Fd netlink() {
    Fd fd(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_NETFILTER));
    sockaddr_nl address{};
    address.nl_family = AF_NETLINK;
    EXPECT_EQ(::bind(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    return fd;
  }
  static void configure(const Fd& fd, std::string_view attributes, std::uint16_t group) {
    std::string message = test::message((NFNL_SUBSYS_ULOG << 8) | NFULNL_MSG_CONFIG, attributes);
    reinterpret_cast<nlmsghdr*>(message.data())->nlmsg_flags = NLM_F_REQUEST;
    reinterpret_cast<nfgenmsg*>(message.data() + sizeof(nlmsghdr))->res_id = htons(group);
    ASSERT_GT(::send(fd.get(), message.data(), message.size(), 0), 0);
  }
  static Fd nflog_socket() {
    Fd fd = netlink();
    const nfulnl_msg_config_cmd bind{NFULNL_CFG_CMD_BIND};
    configure(fd,
              test::attribute(NFULA_CFG_CMD, {reinterpret_cast<const char*>(&bind), sizeof bind}),
              control::kNflogGroup);
    const nfulnl_msg_config_mode mode{htonl(128), NFULNL_COPY_PACKET, 0};
    configure(fd,
              test::attribute(NFULA_CFG_MODE, {reinterpret_cast<const char*>(&mode), sizeof mode}),
              control::kNflogGroup);
    return fd;
  }
  static Fd conntrack_socket() {
    Fd fd = netlink();
    const int group = NFNLGRP_CONNTRACK_DESTROY;
    EXPECT_EQ(::setsockopt(fd.get(), SOL_NETLINK, NETLINK_ADD_MEMBERSHIP, &group, sizeof group), 0);
    return fd;
  }
  // Every entry of the namespace's table ends.
  static void flush_conntrack() {
    const Fd fd = netlink();
    std::string message = test::message((NFNL_SUBSYS_CTNETLINK << 8) | IPCTNL_MSG_CT_DELETE, "");
    reinterpret_cast<nlmsghdr*>(message.data())->nlmsg_flags = NLM_F_REQUEST;
    reinterpret_cast<nfgenmsg*>(message.data() + sizeof(nlmsghdr))->nfgen_family = 0;
    ASSERT_GT(::send(fd.get(), message.data(), message.size(), 0), 0);
  }
  static void send_datagram(std::string_view to, std::size_t size) {
    sockaddr_storage storage{};
    const socklen_t length = Endpoint::parse(to)->to_sockaddr(storage);
    const Fd fd(::socket(storage.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    const std::string bytes(size, 'x');
    (void)::sendto(fd.get(), bytes.data(), bytes.size(), 0, reinterpret_cast<sockaddr*>(&storage),
                   length);
  }
  void await_lines(std::size_t count) {
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (log_.lines().size() < count && std::chrono::steady_clock::now() < limit) {
      io_.restart();
      io_.run_one_for(std::chrono::milliseconds(100));
    }
    ASSERT_GE(log_.lines().size(), count);
  }

  boost::asio::io_context io_;
  Gate gate_{io_};
  test::EgressLines log_;
  std::optional<KernelLog> kernel_;
};

TEST_F(KernelLogRootTest, reads_what_the_kernel_writes) {
  send_datagram("198.18.0.1:4433", 10);
  send_datagram("[2001:db8::1]:53", 10);
  await_lines(2);
  EXPECT_EQ(text(log_.lines()[0], "destination"), "198.18.0.1:4433");
  EXPECT_EQ(text(log_.lines()[0], "reason"), "boundary");
  EXPECT_EQ(text(log_.lines()[0], "protocol"), "udp");
  EXPECT_EQ(text(log_.lines()[1], "destination"), "[2001:db8::1]:53");
  EXPECT_EQ(text(log_.lines()[1], "reason"), "denied_range");

  send_datagram("198.18.0.2:9", 1000);
  flush_conntrack();
  await_lines(3);
  std::optional<boost::json::object> flow;
  for (const auto& line : log_.lines()) {
    if (text(line, "destination") == "198.18.0.2:9") flow = line;
  }
  ASSERT_TRUE(flow);
  EXPECT_EQ(text(*flow, "verdict"), "allow");
  EXPECT_EQ(text(*flow, "protocol"), "udp");
  EXPECT_EQ(text(*flow, "bytes_up"), "1028");
}

}  // namespace
}  // namespace sallyport::firewall
