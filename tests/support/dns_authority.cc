// SPDX-License-Identifier: Apache-2.0
// Blocking sockets and poll; one TCP question at a time. Trusts its clients, as only tests talk to
// it.
#include "support/dns_authority.h"

#include <netinet/in.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>

#include "base/check.h"

namespace sallyport::test {

namespace {

void put16(std::string& out, unsigned value) {
  out.push_back(static_cast<char>(value >> 8));
  out.push_back(static_cast<char>(value));
}
void put32(std::string& out, std::uint32_t value) {
  put16(out, value >> 16);
  put16(out, value & 0xffff);
}
unsigned get16(std::string_view bytes, std::size_t at) {
  return (static_cast<unsigned>(static_cast<unsigned char>(bytes[at])) << 8) |
         static_cast<unsigned char>(bytes[at + 1]);
}
Fd bound(int type, Endpoint endpoint) {
  sockaddr_storage storage{};
  const socklen_t length = endpoint.to_sockaddr(storage);
  Fd fd(::socket(storage.ss_family, type | SOCK_CLOEXEC, 0));
  CHECK(fd);
  const int on = 1;
  ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  CHECK(::bind(fd.get(), reinterpret_cast<sockaddr*>(&storage), length) == 0);
  return fd;
}

Endpoint local(int fd) {
  sockaddr_storage storage{};
  socklen_t length = sizeof storage;
  CHECK(::getsockname(fd, reinterpret_cast<sockaddr*>(&storage), &length) == 0);
  return *Endpoint::from_sockaddr(reinterpret_cast<sockaddr*>(&storage), length);
}

}  // namespace

std::string wire_name(std::string_view name) {
  std::string out;
  while (!name.empty()) {
    const std::size_t dot = std::min(name.find('.'), name.size());
    if (dot > 0) out.append(1, static_cast<char>(dot)).append(name.substr(0, dot));
    name.remove_prefix(std::min(dot + 1, name.size()));
  }
  return out.append(1, '\0');
}

std::string address_data(std::string_view text) {
  const auto address = Address::parse(text);
  CHECK(address);
  const auto& raw = address->raw();
  return {raw.begin() + (address->is_v4() ? 12 : 0), raw.end()};
}

std::string soa_data(std::uint32_t minimum) {
  std::string out = wire_name("ns.test") + wire_name("host.test");
  for (const std::uint32_t value : {1U, 60U, 60U, 60U, minimum}) put32(out, value);
  return out;
}

DnsRecord a_record(std::string_view name, std::string_view address, std::uint32_t ttl) {
  std::string data = address_data(address);
  const auto type = static_cast<std::uint16_t>(data.size() == 4 ? 1 : 28);
  return {std::string(name), type, ttl, std::move(data)};
}
DnsRecord cname_record(std::string_view name, std::string_view target, std::uint32_t ttl) {
  return {std::string(name), 5, ttl, wire_name(target)};
}
DnsReply no_data(std::string_view zone) {
  return {.authority = {{std::string(zone), 6, 60, soa_data(60)}}};
}

std::string record_bytes(const DnsRecord& record) {
  std::string out = wire_name(record.name);
  put16(out, record.type);
  put16(out, 1);
  put32(out, record.ttl);
  put16(out, static_cast<unsigned>(record.data.size()));
  return out + record.data;
}

std::string answer_message(const std::string& name, std::uint16_t type, const DnsReply& reply) {
  std::string out(2, '\0');
  put16(out, 0x8180U | static_cast<unsigned>(reply.rcode));
  put16(out, 1);
  put16(out, static_cast<unsigned>(reply.answers.size()));
  put16(out, static_cast<unsigned>(reply.authority.size()));
  put16(out, 0);
  out += wire_name(name);
  put16(out, type);
  put16(out, 1);
  for (const DnsRecord& record : reply.answers) out += record_bytes(record);
  for (const DnsRecord& record : reply.authority) out += record_bytes(record);
  return out;
}

DnsAuthority::DnsAuthority(Zone zone, const char* address, std::uint16_t port)
    : zone_(std::move(zone)), wake_(::eventfd(0, EFD_CLOEXEC)) {
  tcp_listener_ = bound(SOCK_STREAM, {*Address::parse(address), port});
  endpoint_ = local(tcp_listener_.get());
  CHECK(::listen(tcp_listener_.get(), 16) == 0);
  udp_ = bound(SOCK_DGRAM, endpoint_);
  thread_ = std::thread([this] { serve(); });
}

DnsAuthority::~DnsAuthority() {
  const std::uint64_t one = 1;
  CHECK(::write(wake_.get(), &one, sizeof one) == sizeof one);
  thread_.join();
}

unsigned DnsAuthority::asked(const std::string& name, std::uint16_t type) const {
  const std::lock_guard lock(mutex_);
  const auto found = counts_.find({name, type});
  return found == counts_.end() ? 0 : found->second;
}

void DnsAuthority::serve() {
  std::array<char, 4096> buffer;
  for (;;) {
    std::array<pollfd, 3> fds{
        {{udp_.get(), POLLIN, 0}, {tcp_listener_.get(), POLLIN, 0}, {wake_.get(), POLLIN, 0}}};
    if (::poll(fds.data(), fds.size(), -1) < 0) continue;
    if (fds[2].revents != 0) return;
    if (fds[0].revents != 0) {
      sockaddr_storage peer{};
      socklen_t length = sizeof peer;
      const ssize_t count = ::recvfrom(udp_.get(), buffer.data(), buffer.size(), 0,
                                       reinterpret_cast<sockaddr*>(&peer), &length);
      if (count <= 12) continue;
      const std::string reply = answer({buffer.data(), static_cast<std::size_t>(count)}, true);
      if (!reply.empty())
        ::sendto(udp_.get(), reply.data(), reply.size(), 0, reinterpret_cast<sockaddr*>(&peer),
                 length);
    }
    if (fds[1].revents != 0) {
      const Fd stream(::accept(tcp_listener_.get(), nullptr, nullptr));
      if (stream) serve_stream(stream.get());
    }
  }
}

void DnsAuthority::serve_stream(int fd) {
  std::array<char, 4096> buffer;
  if (::recv(fd, buffer.data(), 2, MSG_WAITALL) != 2) return;
  const std::size_t length = get16({buffer.data(), 2}, 0);
  if (length <= 12 || length > buffer.size()) return;
  if (::recv(fd, buffer.data(), length, MSG_WAITALL) != static_cast<ssize_t>(length)) return;
  ++tcp_;
  std::string framed;
  const std::string reply = answer({buffer.data(), length}, false);
  put16(framed, static_cast<unsigned>(reply.size()));
  framed += reply;
  if (!reply.empty()) ::send(fd, framed.data(), framed.size(), MSG_NOSIGNAL);
}

std::string DnsAuthority::answer(std::string_view question, bool udp) {
  std::string name;
  std::size_t at = 12;
  while (question[at] != 0) {
    const auto length = static_cast<std::size_t>(question[at]);
    if (!name.empty()) name += '.';
    for (const char c : question.substr(at + 1, length))
      name += static_cast<char>(c >= 'A' && c <= 'Z' ? c | 0x20 : c);
    at += 1 + length;
  }
  const std::size_t end = at + 5;
  const auto type = static_cast<std::uint16_t>(get16(question, at + 1));
  const bool edns = get16(question, 10) > 0 && question.size() >= end + 11;
  const std::size_t limit = !udp ? 65535 : edns ? get16(question, end + 3) : 512;

  unsigned number = 0;
  {
    const std::lock_guard lock(mutex_);
    number = counts_[{name, type}]++;
    ++total_;
  }
  const DnsReply reply = zone_(name, type, number);
  if (reply.silent) return {};
  const auto render = [&](bool truncated) {
    std::string out(question.substr(0, 2));
    put16(out, 0x8080U | (truncated ? 0x200U : 0U) |
                   static_cast<unsigned>(reply.rcode));  // QR RA: a resolver
    put16(out, 1);
    put16(out, truncated ? 0 : static_cast<unsigned>(reply.answers.size()));
    put16(out, truncated ? 0 : static_cast<unsigned>(reply.authority.size()));
    put16(out, edns ? 1 : 0);
    out += question.substr(12, end - 12);
    if (!truncated) {
      for (const DnsRecord& record : reply.answers) out += record_bytes(record);
      for (const DnsRecord& record : reply.authority) out += record_bytes(record);
    }
    if (edns) out += std::string("\0\0\x29\x04\xd0\0\0\0\0\0\0", 11);
    return out;
  };
  std::string whole = render(false);
  return whole.size() <= limit ? whole : render(true);
}

}  // namespace sallyport::test
