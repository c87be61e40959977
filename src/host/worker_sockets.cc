// SPDX-License-Identifier: Apache-2.0
#include "host/worker_sockets.h"

#include <fcntl.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netfilter/nfnetlink_conntrack.h>
#include <linux/netfilter/nfnetlink_log.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include "host/netfilter_socket.h"
#include "host/ruleset.h"

namespace sallyport::host {
namespace {

constexpr int kBacklog = 4096;
constexpr std::uint32_t kLoggedBytes = 128;  // headers of any packet; never a payload worth having

Result<> turn_on(const Fd& socket, int level, int option, const char* what) {
  const int one = 1;
  if (setsockopt(socket.get(), level, option, &one, sizeof one) != 0) return fail_errno(what);
  return {};
}

enum class Kind { tproxy, tcp, udp };

Result<Fd> open_socket(Kind kind, const Endpoint& at) {
  const bool four = at.address.is_v4();
  const bool stream = kind != Kind::udp;
  Fd fd(socket(four ? AF_INET : AF_INET6,
               (stream ? SOCK_STREAM : SOCK_DGRAM) | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd) return fail_errno("socket");
  if (stream) {
    // The connections of a worker that has just died are in TIME_WAIT on this address.
    if (auto ok = turn_on(fd, SOL_SOCKET, SO_REUSEADDR, "SO_REUSEADDR"); !ok)
      return std::unexpected(ok.error());
  }
  if (!four) {
    if (auto ok = turn_on(fd, IPPROTO_IPV6, IPV6_V6ONLY, "IPV6_V6ONLY"); !ok)
      return std::unexpected(ok.error());
  }
  if (kind == Kind::tproxy) {
    auto ok = four ? turn_on(fd, IPPROTO_IP, IP_TRANSPARENT, "IP_TRANSPARENT")
                   : turn_on(fd, IPPROTO_IPV6, IPV6_TRANSPARENT, "IPV6_TRANSPARENT");
    if (!ok) return std::unexpected(ok.error());
  }
  if (kind != Kind::tproxy) {
    // The gateway address appears with the guest's link, which may be attached after the worker is
    // ready.
    auto ok = four ? turn_on(fd, IPPROTO_IP, IP_FREEBIND, "IP_FREEBIND")
                   : turn_on(fd, IPPROTO_IPV6, IPV6_FREEBIND, "IPV6_FREEBIND");
    if (!ok) return std::unexpected(ok.error());
  }
  sockaddr_storage address;
  const socklen_t length = at.to_sockaddr(address);
  if (bind(fd.get(), reinterpret_cast<sockaddr*>(&address), length) != 0)
    return fail_errno("bind " + at.to_string());
  if (stream && listen(fd.get(), kBacklog) != 0) return fail_errno("listen " + at.to_string());
  return fd;
}

Result<> set_non_blocking(const Fd& fd) {
  const int flags = fcntl(fd.get(), F_GETFL);
  if (flags < 0 || fcntl(fd.get(), F_SETFL, flags | O_NONBLOCK) != 0)
    return fail_errno("O_NONBLOCK");
  return {};
}

// A lost log line must not turn into an error on the next read.
void never_overrun(const Fd& fd) {
  const int one = 1;
  setsockopt(fd.get(), SOL_NETLINK, NETLINK_NO_ENOBUFS, &one, sizeof one);
}

Result<Fd> open_nflog() {
  auto socket = NetfilterSocket::open();
  if (!socket) return std::unexpected(socket.error());
  const auto config = [](auto&& fill) {
    NetlinkMessage message(NFNL_SUBSYS_ULOG << 8 | NFULNL_MSG_CONFIG, NLM_F_REQUEST | NLM_F_ACK,
                           AF_UNSPEC, kNflogGroup);
    fill(message);
    return message;
  };
  NetlinkMessage bind_group = config([](NetlinkMessage& m) {
    const nfulnl_msg_config_cmd command{NFULNL_CFG_CMD_BIND};
    m.put(NFULA_CFG_CMD, {reinterpret_cast<const std::uint8_t*>(&command), sizeof command});
  });
  NetlinkMessage mode = config([](NetlinkMessage& m) {
    nfulnl_msg_config_mode copy{};
    copy.copy_range = htonl(kLoggedBytes);
    copy.copy_mode = NFULNL_COPY_PACKET;
    m.put(NFULA_CFG_MODE, {reinterpret_cast<const std::uint8_t*>(&copy), sizeof copy});
    m.put_be32(NFULA_CFG_QTHRESH, 16);  // packets per message at the most, ...
    m.put_be32(NFULA_CFG_TIMEOUT, 2);   // ... each on its way within 20 ms
  });
  for (NetlinkMessage* message : {&bind_group, &mode}) {
    if (auto ok = socket->ask(*message); !ok) return context("NFLOG", ok.error());
  }
  Fd fd = socket->take();
  never_overrun(fd);
  if (auto ok = set_non_blocking(fd); !ok) return std::unexpected(ok.error());
  return fd;
}

Result<Fd> open_conntrack_events() {
  auto socket = NetfilterSocket::open();
  if (!socket) return std::unexpected(socket.error());
  Fd fd = socket->take();
  const int group = NFNLGRP_CONNTRACK_DESTROY;
  if (setsockopt(fd.get(), SOL_NETLINK, NETLINK_ADD_MEMBERSHIP, &group, sizeof group) != 0)
    return fail_errno("conntrack events");
  never_overrun(fd);
  if (auto ok = set_non_blocking(fd); !ok) return std::unexpected(ok.error());
  return fd;
}

}  // namespace

Result<std::vector<Fd>> open_worker_sockets_here(const Address& router4, const Address& router6) {
  const Address loopback4 = Address::v4(INADDR_LOOPBACK);
  const Address loopback6 = *Address::parse("::1");
  std::vector<Fd> sockets;
  const auto add = [&](Result<Fd> opened) -> Result<> {
    if (!opened) return std::unexpected(opened.error());
    sockets.push_back(std::move(*opened));
    return {};
  };
  struct Wanted {
    Kind kind;
    Endpoint at;
  };
  for (const auto& [kind, at] :
       {Wanted{Kind::tproxy, {loopback4, kTproxyPort}},
        Wanted{Kind::tproxy, {loopback6, kTproxyPort}}, Wanted{Kind::udp, {router4, kDnsPort}},
        Wanted{Kind::udp, {router6, kDnsPort}}, Wanted{Kind::tcp, {router4, kDnsPort}},
        Wanted{Kind::tcp, {router6, kDnsPort}}}) {
    if (auto ok = add(open_socket(kind, at)); !ok) return std::unexpected(ok.error());
  }
  if (auto ok = add(open_nflog()); !ok) return std::unexpected(ok.error());
  if (auto ok = add(open_conntrack_events()); !ok) return std::unexpected(ok.error());
  return sockets;
}

Result<> set_defer_accept(const Fd& listener, int seconds) {
  if (setsockopt(listener.get(), IPPROTO_TCP, TCP_DEFER_ACCEPT, &seconds, sizeof seconds) != 0) {
    return fail_errno("TCP_DEFER_ACCEPT");
  }
  return {};
}

}  // namespace sallyport::host
