// SPDX-License-Identifier: Apache-2.0
#include "host/lab.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/ip.h>
#include <netinet/ip6.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "base/check.h"
#include "host/ruleset.h"

namespace sallyport::host::lab {
namespace {

template <class T>
T must(Result<T> result) {
  if (!result) {
    std::fprintf(stderr, "lab: %s\n", result.error().message.c_str());
    std::abort();
  }
  if constexpr (!std::is_void_v<T>) return std::move(*result);
}

Result<Fd> made(int fd, const char* what) {
  if (fd < 0) return fail_errno(what);
  return Fd(fd);
}

Fd open_socket(const Fd& ns, int family, int type, int protocol) {
  return must(in_namespace(ns, [&] {
    return made(socket(family, type | SOCK_CLOEXEC | SOCK_NONBLOCK, protocol), "socket");
  }));
}

std::pair<sockaddr_storage, socklen_t> sockaddr_of(const std::string& text) {
  const auto endpoint = Endpoint::parse(text);
  CHECK(endpoint);
  sockaddr_storage storage;
  const socklen_t length = endpoint->to_sockaddr(storage);
  return {storage, length};
}

int family_of(const std::string& text) { return text.starts_with("[") ? AF_INET6 : AF_INET; }

Seen seen_of(std::string_view packet) {
  Seen seen;
  std::size_t header = 0;
  if ((packet[0] & 0xf0) == 0x40) {
    iphdr ip;
    std::memcpy(&ip, packet.data(), sizeof ip);
    seen.source = Address::v4(ntohl(ip.saddr));
    seen.destination = Address::v4(ntohl(ip.daddr));
    seen.protocol = ip.protocol;
    header = ip.ihl * 4U;
  } else {
    Address::Raw raw;
    std::memcpy(raw.data(), packet.data() + 8, 16);
    seen.source = Address(raw);
    std::memcpy(raw.data(), packet.data() + 24, 16);
    seen.destination = Address(raw);
    seen.protocol = static_cast<std::uint8_t>(packet[6]);
    header = 40;
  }
  seen.payload = packet.substr(std::min(header, packet.size()));
  if (seen.payload.size() >= 4) {
    const auto at = [&](std::size_t i) { return static_cast<std::uint8_t>(seen.payload[i]); };
    seen.source_port = static_cast<std::uint16_t>(at(0) << 8 | at(1));
    seen.destination_port = static_cast<std::uint16_t>(at(2) << 8 | at(3));
  }
  return seen;
}

// What the node's own kernel says on the link: multicast listener reports, neighbour discovery.
bool is_link_chatter(const Seen& seen) {
  const bool link_scope = seen.destination.raw()[0] == 0xff && seen.destination.raw()[1] == 0x02;
  return link_scope || (seen.protocol == IPPROTO_ICMPV6 && !seen.payload.empty() &&
                        static_cast<std::uint8_t>(seen.payload[0]) >= 130);
}

}  // namespace

void run(const std::string& command) {
  if (std::system(command.c_str()) != 0) {
    std::fprintf(stderr, "lab: failed: %s\n", command.c_str());
    std::abort();
  }
}

Internet::Internet() {
  static int count = 0;
  const std::string unique = std::to_string(getpid()) + "-" + std::to_string(count++);
  node_name_ = "hostnode-" + unique;
  internet_name_ = "hostnet-" + unique;
  node_ns = must(create_namespace(node_name_));
  internet_ns = must(create_namespace(internet_name_));
  const std::string n = "ip -n " + node_name_ + " ";
  const std::string i = "ip -n " + internet_name_ + " ";
  for (const auto& name : {node_name_, internet_name_}) {
    run("ip netns exec " + name +
        " sysctl -qw net.ipv6.conf.default.accept_dad=0");  // else neighbour discovery starts late
  }
  run(n + "link set lo up && " + i + "link set lo up");
  run(n + "link add up0 type veth peer name net0 netns " + internet_name_);
  run(n + "addr add 198.18.0.1/24 dev up0 && " + n + "addr add 2001:db8::1/64 dev up0 nodad && " +
      n + "link set up0 up");
  run(i + "addr add 198.18.0.2/24 dev net0 && " + i + "addr add 2001:db8::2/64 dev net0 nodad && " +
      i + "link set net0 up");
  run(n + "route add default via 198.18.0.2 && " + n + "-6 route add default via 2001:db8::2");
  // Fixed neighbours, so that no test waits for a second try at neighbour discovery.
  run(n + "link set up0 address 02:5a:10:00:00:01 && " + i +
      "link set net0 address 02:5a:10:00:00:02");
  for (const auto* address : {"198.18.0.2", "2001:db8::2"})
    run(n + "neigh replace " + address + " lladdr 02:5a:10:00:00:02 dev up0 nud permanent");
  for (const auto* address : {"198.18.0.1", "2001:db8::1"})
    run(i + "neigh replace " + address + " lladdr 02:5a:10:00:00:01 dev net0 nud permanent");
  // The internet is every address that is not the node's.
  for (const auto* range : {"198.18.1.0/24", "198.19.0.0/16", "10.77.0.0/16", "169.254.169.0/24"})
    run(i + "route add local " + range + " dev lo");
  for (const auto* range : {"2001:db8:1::/48", "2001:db8:2::/48", "64:ff9b::/96", "fd77::/16"})
    run(i + "-6 route add local " + range + " dev lo");
  run("ip netns exec " + internet_name_ + " sysctl -qw net.ipv6.ip_nonlocal_bind=1");

  capture_ = must(in_namespace(internet_ns, [&]() -> Result<Fd> {
    auto fd = made(socket(AF_PACKET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, htons(ETH_P_ALL)),
                   "packet socket");
    if (!fd) return fd;
    sockaddr_ll link{};
    link.sll_family = AF_PACKET;
    link.sll_protocol = htons(ETH_P_ALL);
    link.sll_ifindex = static_cast<int>(if_nametoindex("net0"));
    if (bind(fd->get(), reinterpret_cast<sockaddr*>(&link), sizeof link) != 0)
      return fail_errno("bind packet socket");
    const int large = 8 << 20;
    setsockopt(fd->get(), SOL_SOCKET, SO_RCVBUFFORCE, &large, sizeof large);
    return fd;
  }));

  node.pool4 = *Cidr::parse("10.209.0.0/16");
  node.pool6 = *Cidr::parse("fd53:616c:6c79::/48");
  node.resolvers = {*Address::parse("198.18.1.53")};
  for (const auto* range : {"10.0.0.0/8", "169.254.0.0/16", "fc00::/7", "198.18.1.53/32"})
    node.refused.push_back(*Cidr::parse(range));
  node.worker_uid_first = 1900000000;
  node.worker_uid_last = 1900008191;
  must(as_daemon([&] { return setup_node(node); }));
  seen();
}

Internet::~Internet() {
  capture_.reset();
  node_ns.reset();
  internet_ns.reset();
  (void)remove_namespace(node_name_);
  (void)remove_namespace(internet_name_);
}

std::vector<Seen> Internet::seen() {
  std::vector<Seen> packets;
  char buffer[65536];
  for (;;) {
    sockaddr_ll link{};
    socklen_t length = sizeof link;
    const ssize_t got = recvfrom(capture_.get(), buffer, sizeof buffer, 0,
                                 reinterpret_cast<sockaddr*>(&link), &length);
    if (got < 0) return packets;
    const auto type = ntohs(link.sll_protocol);
    if (link.sll_pkttype == PACKET_OUTGOING || got < 20 || (type != ETH_P_IP && type != ETH_P_IPV6))
      continue;
    Seen packet = seen_of({buffer, static_cast<std::size_t>(got)});
    if (!is_link_chatter(packet)) packets.push_back(std::move(packet));
  }
}

Guest::Guest() {
  int ready[2];
  CHECK(pipe(ready) == 0);
  pid = fork();
  CHECK(pid >= 0);
  if (pid == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    const char ok = unshare(CLONE_NEWNET) == 0 ? 'y' : 'n';
    if (write(ready[1], &ok, 1) != 1) _exit(1);
    for (;;) pause();
  }
  char answer = 'n';
  CHECK(read(ready[0], &answer, 1) == 1 && answer == 'y');
  close(ready[0]);
  close(ready[1]);
  ns = must(namespace_of_process(pid));
}

Guest::~Guest() {
  kill(pid, SIGKILL);
  waitpid(pid, nullptr, 0);
}

Sandbox::Sandbox(Internet& internet, const std::string& name, unsigned slot)
    : guest(std::make_unique<Guest>()), internet_(internet) {
  network.id = name + "_" + std::to_string(getpid());
  network.slot = slot;
  must(internet.as_daemon([&] { return create_router(internet.node, network); }));
  worker = must(internet.as_daemon([&] { return open_worker_sockets(internet.node, network); }));
  must(internet.as_daemon([&] { return attach_guest(internet.node, network, guest->pid); }));
}

Sandbox::~Sandbox() {
  worker.clear();
  must(internet_.as_daemon([&] { return destroy(internet_.node, network); }));
}

Applied Sandbox::apply(const AddressPolicy& policy) {
  return must(internet_.as_daemon([&] { return host::apply(internet_.node, network, policy); }));
}

void Sandbox::renew_guest() {
  guest = std::make_unique<Guest>();
  must(internet_.as_daemon([&] { return attach_guest(internet_.node, network, guest->pid); }));
}

void Sandbox::send_raw(const std::string& packet) const {
  const std::uint16_t type = (packet[0] & 0xf0) == 0x40 ? ETH_P_IP : ETH_P_IPV6;
  send_frame(guest->ns, "eth0", at().guest_mac, mac_of(LinkRole::router_guest, network.slot), type,
             packet);
}

std::vector<Seen> Sandbox::seen() {
  static int count = 0;
  const std::string token = "beacon " + std::to_string(++count);
  const Fd socket = udp_socket(guest->ns);
  CHECK(send_udp(socket, std::string(kBeacon) + ":9", token) == 0);
  std::vector<Seen> all;
  for (;;) {
    if (!readable(internet_.capture(), 5000)) {
      std::fprintf(stderr, "lab: the beacon did not arrive\n");
      std::abort();
    }
    for (Seen& packet : internet_.seen()) {
      if (packet.payload.ends_with(token)) return all;
      all.push_back(std::move(packet));
    }
  }
}

Fd tcp_listener(const Fd& ns, const std::string& at) {
  Fd fd = open_socket(ns, family_of(at), SOCK_STREAM, 0);
  const int one = 1;
  setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
  if (family_of(at) == AF_INET6) setsockopt(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, &one, sizeof one);
  const auto [address, length] = sockaddr_of(at);
  CHECK(bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), length) == 0);
  CHECK(listen(fd.get(), 64) == 0);
  return fd;
}

Dialled dial(const Fd& ns, const std::string& to, int ms) {
  Dialled dialled;
  must(in_namespace(ns, [&]() -> Result<> {
    dialled = dial_here(to, ms);
    return {};
  }));
  return dialled;
}

Dialled dial_here(const std::string& to, int ms) {
  Dialled dialled{0, must(made(socket(family_of(to), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0),
                               "socket"))};
  const auto [address, length] = sockaddr_of(to);
  if (connect(dialled.socket.get(), reinterpret_cast<const sockaddr*>(&address), length) == 0)
    return dialled;
  if (errno != EINPROGRESS) {
    dialled.error = errno;
    return dialled;
  }
  pollfd poller{dialled.socket.get(), POLLOUT, 0};
  if (poll(&poller, 1, ms) != 1) {
    dialled.error = ETIMEDOUT;
    return dialled;
  }
  socklen_t size = sizeof dialled.error;
  getsockopt(dialled.socket.get(), SOL_SOCKET, SO_ERROR, &dialled.error, &size);
  return dialled;
}

Fd udp_socket(const Fd& ns, const std::string& bound_to) {
  Fd fd = open_socket(ns, bound_to.empty() ? AF_INET : family_of(bound_to), SOCK_DGRAM, 0);
  if (!bound_to.empty()) {
    const auto [address, length] = sockaddr_of(bound_to);
    CHECK(bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), length) == 0);
  }
  return fd;
}

int send_udp(const Fd& socket, const std::string& to, const std::string& text) {
  const auto [address, length] = sockaddr_of(to);
  // Connected, so that ICMP errors come back on the socket.
  if (connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), length) != 0) return errno;
  return send(socket.get(), text.data(), text.size(), 0) < 0 ? errno : 0;
}

bool readable(const Fd& socket, int ms) {
  pollfd poller{socket.get(), POLLIN, 0};
  return poll(&poller, 1, ms) == 1;
}

std::string receive(const Fd& socket, int ms, int* error, Endpoint* from) {
  if (error != nullptr) *error = 0;
  if (!readable(socket, ms)) return {};
  char buffer[65536];
  sockaddr_storage peer{};
  socklen_t length = sizeof peer;
  const ssize_t got =
      recvfrom(socket.get(), buffer, sizeof buffer, 0, reinterpret_cast<sockaddr*>(&peer), &length);
  if (got < 0) {
    if (error != nullptr) *error = errno;
    return {};
  }
  if (from != nullptr) {
    if (const auto endpoint = Endpoint::from_sockaddr(reinterpret_cast<sockaddr*>(&peer), length))
      *from = *endpoint;
  }
  return {buffer, static_cast<std::size_t>(got)};
}

void send_frame(const Fd& ns, const std::string& link, const std::array<std::uint8_t, 6>& from,
                const std::array<std::uint8_t, 6>& to, std::uint16_t ethertype,
                const std::string& packet) {
  must(in_namespace(ns, [&]() -> Result<> {
    const Fd fd(socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0));
    if (!fd) return fail_errno("packet socket");
    sockaddr_ll address{};
    address.sll_family = AF_PACKET;
    address.sll_ifindex = static_cast<int>(if_nametoindex(link.c_str()));
    std::string frame(reinterpret_cast<const char*>(to.data()), 6);
    frame.append(reinterpret_cast<const char*>(from.data()), 6);
    frame += static_cast<char>(ethertype >> 8);
    frame += static_cast<char>(ethertype & 0xff);
    frame += packet;
    if (sendto(fd.get(), frame.data(), frame.size(), 0, reinterpret_cast<sockaddr*>(&address),
               sizeof address) < 0) {
      return fail_errno("send frame");
    }
    return {};
  }));
}

}  // namespace sallyport::host::lab
