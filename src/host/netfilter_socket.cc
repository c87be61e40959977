// SPDX-License-Identifier: Apache-2.0
#include "host/netfilter_socket.h"

#include <arpa/inet.h>
#include <linux/netfilter/nfnetlink.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

namespace sallyport::host {
namespace {

constexpr std::size_t aligned(std::size_t size) { return (size + 3) & ~std::size_t{3}; }

template <class T>
Bytes bytes_of(const T& value) {
  return {reinterpret_cast<const std::uint8_t*>(&value), sizeof value};
}

void append(std::vector<std::uint8_t>& to, Bytes what) {
  to.insert(to.end(), what.begin(), what.end());
}

}  // namespace

NetlinkMessage::NetlinkMessage(std::uint16_t type, std::uint16_t flags, std::uint8_t family,
                               std::uint16_t resource) {
  const nlmsghdr header{0, type, flags, 0, 0};
  const nfgenmsg generic{family, NFNETLINK_V0, htons(resource)};
  append(data_, bytes_of(header));
  append(data_, bytes_of(generic));
}

void NetlinkMessage::put(std::uint16_t attribute, Bytes value) {
  const nlattr header{static_cast<std::uint16_t>(sizeof(nlattr) + value.size()), attribute};
  append(data_, bytes_of(header));
  append(data_, value);
  data_.resize(aligned(data_.size()));
}

void NetlinkMessage::put_text(std::uint16_t attribute, std::string_view value) {
  std::vector<std::uint8_t> text(value.begin(), value.end());
  text.push_back(0);
  put(attribute, text);
}

void NetlinkMessage::put_be16(std::uint16_t attribute, std::uint16_t value) {
  put(attribute, bytes_of(htons(value)));
}
void NetlinkMessage::put_be32(std::uint16_t attribute, std::uint32_t value) {
  put(attribute, bytes_of(htonl(value)));
}

std::size_t NetlinkMessage::begin(std::uint16_t attribute) {
  const std::size_t at = data_.size();
  put(static_cast<std::uint16_t>(attribute | NLA_F_NESTED), {});
  return at;
}

void NetlinkMessage::end(std::size_t nest) {
  const auto length = static_cast<std::uint16_t>(data_.size() - nest);
  std::memcpy(data_.data() + nest, &length, sizeof length);
}

void NetlinkMessage::append_raw(Bytes attributes) {
  append(data_, attributes);
  data_.resize(aligned(data_.size()));
}

void NetlinkMessage::set_sequence(std::uint32_t sequence) {
  std::memcpy(data_.data() + offsetof(nlmsghdr, nlmsg_seq), &sequence, sizeof sequence);
}

Bytes NetlinkMessage::bytes() {
  const auto length = static_cast<std::uint32_t>(data_.size());
  std::memcpy(data_.data(), &length, sizeof length);
  return data_;
}

Bytes find_attribute(Bytes attributes, std::uint16_t wanted) {
  while (attributes.size() >= sizeof(nlattr)) {
    nlattr header;
    std::memcpy(&header, attributes.data(), sizeof header);
    if (header.nla_len < sizeof header || header.nla_len > attributes.size()) return {};
    if ((header.nla_type & NLA_TYPE_MASK) == wanted)
      return attributes.subspan(sizeof header, header.nla_len - sizeof header);
    attributes = attributes.subspan(std::min(aligned(header.nla_len), attributes.size()));
  }
  return {};
}

Result<NetfilterSocket> NetfilterSocket::open() {
  Fd fd(socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_NETFILTER));
  if (!fd) return fail_errno("netfilter socket");
  const timeval deadline{5, 0};  // the kernel answers in the call itself; this is for a lost answer
  setsockopt(fd.get(), SOL_SOCKET, SO_RCVTIMEO, &deadline, sizeof deadline);
  const int large = 1 << 21;
  setsockopt(fd.get(), SOL_SOCKET, SO_SNDBUFFORCE, &large, sizeof large);
  setsockopt(fd.get(), SOL_SOCKET, SO_RCVBUFFORCE, &large, sizeof large);
  sockaddr_nl address{};
  address.nl_family = AF_NETLINK;
  if (bind(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0)
    return fail_errno("bind netfilter socket");
  return NetfilterSocket(std::move(fd));
}

Result<> NetfilterSocket::send(Bytes bytes) {
  sockaddr_nl kernel{};
  kernel.nl_family = AF_NETLINK;
  const ssize_t sent = sendto(fd_.get(), bytes.data(), bytes.size(), 0,
                              reinterpret_cast<const sockaddr*>(&kernel), sizeof kernel);
  if (sent != static_cast<ssize_t>(bytes.size())) return fail_errno("send to netfilter");
  return {};
}

Result<> NetfilterSocket::receive(const std::function<Result<bool>(const nlmsghdr&, Bytes)>& on) {
  std::array<std::uint8_t, 65536> buffer;
  for (;;) {
    const ssize_t got = recv(fd_.get(), buffer.data(), buffer.size(), 0);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return fail_errno("receive from netfilter");
    Bytes rest(buffer.data(), static_cast<std::size_t>(got));
    while (rest.size() >= sizeof(nlmsghdr)) {
      nlmsghdr header;
      std::memcpy(&header, rest.data(), sizeof header);
      if (header.nlmsg_len < sizeof header || header.nlmsg_len > rest.size()) break;
      const Bytes payload = rest.subspan(sizeof header, header.nlmsg_len - sizeof header);
      rest = rest.subspan(std::min(aligned(header.nlmsg_len), rest.size()));
      auto done = on(header, payload);
      if (!done) return std::unexpected(done.error());
      if (*done) return {};
    }
  }
}

namespace {

// Zero, or the errno that an NLMSG_ERROR carries.
int error_in(Bytes payload) {
  std::int32_t error = -EIO;
  if (payload.size() >= sizeof error) std::memcpy(&error, payload.data(), sizeof error);
  return -error;
}

}  // namespace

Result<> NetfilterSocket::ask(NetlinkMessage& message) {
  message.set_sequence(++sequence_);
  if (auto sent = send(message.bytes()); !sent) return sent;
  return receive([&](const nlmsghdr& header, Bytes payload) -> Result<bool> {
    if (header.nlmsg_seq != sequence_ || header.nlmsg_type != NLMSG_ERROR) return false;
    const int error = error_in(payload);
    if (error == ENOENT) return fail(Code::not_found, "netfilter: no such entry");
    if (error != 0) return fail_errno("netfilter", error);
    return true;
  });
}

Result<> NetfilterSocket::dump(NetlinkMessage& message, const std::function<void(Bytes)>& each) {
  message.set_sequence(++sequence_);
  if (auto sent = send(message.bytes()); !sent) return sent;
  return receive([&](const nlmsghdr& header, Bytes payload) -> Result<bool> {
    if (header.nlmsg_seq != sequence_) return false;
    if (header.nlmsg_type == NLMSG_DONE) return true;
    if (header.nlmsg_type == NLMSG_ERROR) return fail_errno("netfilter", error_in(payload));
    if (payload.size() >= sizeof(nfgenmsg)) each(payload.subspan(sizeof(nfgenmsg)));
    return false;
  });
}

Result<> NetfilterSocket::send_batch(Bytes batch, std::uint32_t messages) {
  if (auto sent = send(batch); !sent) return sent;
  return receive([&](const nlmsghdr& header, Bytes payload) -> Result<bool> {
    if (header.nlmsg_type != NLMSG_ERROR || header.nlmsg_seq > messages) return false;
    if (const int error = error_in(payload); error != 0) return fail_errno("netfilter", error);
    return header.nlmsg_seq + 1 == messages;
  });
}

}  // namespace sallyport::host
