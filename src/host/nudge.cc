// SPDX-License-Identifier: Apache-2.0
#include "host/nudge.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/ip.h>
#include <netinet/ip6.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <cstring>

#include "base/fd.h"
#include "host/ruleset.h"

namespace sallyport::host {
namespace {

Fd raw_socket(int family) {
  Fd fd(socket(family, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK,
               IPPROTO_RAW));  // IPPROTO_RAW: headers are ours
  const auto mark = kNudgeMark;
  if (fd) setsockopt(fd.get(), SOL_SOCKET, SO_MARK, &mark, sizeof mark);
  return fd;
}

std::uint32_t sum16(const void* data, std::size_t size, std::uint32_t sum = 0) {
  const auto* byte = static_cast<const std::uint8_t*>(data);
  for (std::size_t i = 0; i + 1 < size; i += 2)
    sum += static_cast<std::uint32_t>(byte[i] << 8 | byte[i + 1]);
  return sum;
}

std::uint16_t fold(std::uint32_t sum) {
  while (sum >> 16) sum = (sum & 0xffff) + (sum >> 16);
  return htons(static_cast<std::uint16_t>(~sum));
}

tcphdr syn(const TrackedFlow& flow) {
  tcphdr tcp{};
  tcp.source = htons(flow.destination.port);
  tcp.dest = htons(flow.source.port);
  tcp.doff = sizeof tcp / 4;
  tcp.syn = 1;
  tcp.window = htons(1024);
  const auto& from = flow.destination.address.raw();
  const auto& to = flow.source.address.raw();
  const std::size_t skip = flow.source.address.is_v4() ? 12 : 0;
  std::uint32_t sum = sum16(from.data() + skip, 16 - skip);
  sum = sum16(to.data() + skip, 16 - skip, sum);
  sum += IPPROTO_TCP + sizeof tcp;
  tcp.check = fold(sum16(&tcp, sizeof tcp, sum));
  return tcp;
}

void send_syn(const Fd& socket, const TrackedFlow& flow) {
  const tcphdr tcp = syn(flow);
  std::uint8_t packet[sizeof(ip6_hdr) + sizeof(tcphdr)];
  std::size_t header = 0;
  if (flow.source.address.is_v4()) {
    iphdr ip{};
    ip.version = 4;
    ip.ihl = 5;
    ip.tot_len = htons(sizeof ip + sizeof tcp);
    ip.ttl = 64;
    ip.protocol = IPPROTO_TCP;
    ip.saddr = htonl(flow.destination.address.v4_host_order());
    ip.daddr = htonl(flow.source.address.v4_host_order());  // the kernel fills in the checksum
    header = sizeof ip;
    std::memcpy(packet, &ip, sizeof ip);
  } else {
    ip6_hdr ip{};
    ip.ip6_flow = htonl(6U << 28);
    ip.ip6_plen = htons(sizeof tcp);
    ip.ip6_nxt = IPPROTO_TCP;
    ip.ip6_hlim = 64;
    std::memcpy(&ip.ip6_src, flow.destination.address.raw().data(), 16);
    std::memcpy(&ip.ip6_dst, flow.source.address.raw().data(), 16);
    header = sizeof ip;
    std::memcpy(packet, &ip, sizeof ip);
  }
  std::memcpy(packet + header, &tcp, sizeof tcp);
  sockaddr_storage to;
  const socklen_t length = Endpoint{flow.source.address, 0}.to_sockaddr(to);
  (void)sendto(socket.get(), packet, header + sizeof tcp, 0, reinterpret_cast<const sockaddr*>(&to),
               length);
}

}  // namespace

void nudge(std::span<const TrackedFlow> flows) {
  const Fd four = raw_socket(AF_INET);
  const Fd six = raw_socket(AF_INET6);
  for (const TrackedFlow& flow : flows) {
    const Fd& socket = flow.source.address.is_v4() ? four : six;
    if (flow.protocol == IPPROTO_TCP && flow.live && socket) send_syn(socket, flow);
  }
}

}  // namespace sallyport::host
