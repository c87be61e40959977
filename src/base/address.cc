// SPDX-License-Identifier: Apache-2.0
#include "base/address.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>
#include <charconv>
#include <cstring>

#include "base/check.h"

namespace sallyport {
namespace {

constexpr std::array<std::uint8_t, 12> kMapped = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
constexpr unsigned kMappedBits = 96;

std::optional<unsigned> parse_number(std::string_view text, unsigned max) {
  unsigned value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || value > max) return std::nullopt;
  if (text.size() > 1 && text[0] == '0') return std::nullopt;  // no octal look-alikes
  return value;
}

Address v4_at(const Address::Raw& raw, std::size_t offset, std::uint8_t flip = 0) {
  std::uint32_t value = 0;
  for (std::size_t i = 0; i < 4; ++i) value = (value << 8) | std::uint32_t(raw[offset + i] ^ flip);
  return Address::v4(value);
}

bool starts_with(const Address::Raw& raw, std::initializer_list<std::uint8_t> prefix) {
  return std::equal(prefix.begin(), prefix.end(), raw.begin());
}

}  // namespace

Address Address::v4(std::uint32_t host_order) {
  Raw raw{};
  std::copy(kMapped.begin(), kMapped.end(), raw.begin());
  for (std::size_t i = 0; i < 4; ++i) {
    raw[12 + i] = static_cast<std::uint8_t>(host_order >> (24 - 8 * i));
  }
  return Address(raw);
}

std::optional<Address> Address::parse(std::string_view text) {
  if (text.size() > INET6_ADDRSTRLEN) return std::nullopt;
  const std::string copy(text);
  if (copy.find('\0') != std::string::npos) return std::nullopt;
  in_addr four{};
  if (inet_pton(AF_INET, copy.c_str(), &four) == 1) return v4(ntohl(four.s_addr));
  Raw raw{};
  if (inet_pton(AF_INET6, copy.c_str(), raw.data()) == 1) return Address(raw);
  return std::nullopt;
}

bool Address::is_v4() const { return std::equal(kMapped.begin(), kMapped.end(), raw_.begin()); }

std::uint32_t Address::v4_host_order() const {
  CHECK(is_v4());
  return (std::uint32_t(raw_[12]) << 24) | (std::uint32_t(raw_[13]) << 16) |
         (std::uint32_t(raw_[14]) << 8) | raw_[15];
}

std::string Address::to_string() const {
  char text[INET6_ADDRSTRLEN];
  if (is_v4()) {
    inet_ntop(AF_INET, raw_.data() + 12, text, sizeof text);
  } else {
    inet_ntop(AF_INET6, raw_.data(), text, sizeof text);
  }
  return text;
}

std::optional<Address> Address::embedded_v4() const {
  if (is_v4()) return std::nullopt;
  if (starts_with(raw_, {0x00, 0x64, 0xff, 0x9b, 0, 0, 0, 0, 0, 0, 0, 0})) return v4_at(raw_, 12);
  if (starts_with(raw_, {0x20, 0x02})) return v4_at(raw_, 2);
  if (starts_with(raw_, {0x20, 0x01, 0, 0})) return v4_at(raw_, 12, 0xff);  // Teredo inverts it
  const bool compatible = starts_with(raw_, {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0});
  const bool unspecified_or_loopback = raw_[12] == 0 && raw_[13] == 0 && raw_[14] == 0;
  if (compatible && !unspecified_or_loopback) return v4_at(raw_, 12);
  return std::nullopt;
}

std::string Endpoint::to_string() const {
  const std::string text = address.to_string();
  return (address.is_v4() ? text : "[" + text + "]") + ":" + std::to_string(port);
}

std::optional<Endpoint> Endpoint::parse(std::string_view text) {
  const auto colon = text.rfind(':');
  if (colon == std::string_view::npos) return std::nullopt;
  std::string_view host = text.substr(0, colon);
  const auto number = parse_number(text.substr(colon + 1), 65535);
  if (!number) return std::nullopt;
  const bool bracketed = host.size() >= 2 && host.front() == '[' && host.back() == ']';
  if (bracketed) host = host.substr(1, host.size() - 2);
  const auto parsed = Address::parse(host);
  if (!parsed || (host.find(':') != std::string_view::npos) != bracketed) return std::nullopt;
  return Endpoint{*parsed, static_cast<std::uint16_t>(*number)};
}

socklen_t Endpoint::to_sockaddr(sockaddr_storage& out) const {
  std::memset(&out, 0, sizeof out);
  if (address.is_v4()) {
    auto& four = reinterpret_cast<sockaddr_in&>(out);
    four.sin_family = AF_INET;
    four.sin_port = htons(port);
    std::memcpy(&four.sin_addr, address.raw().data() + 12, 4);
    return sizeof four;
  }
  auto& six = reinterpret_cast<sockaddr_in6&>(out);
  six.sin6_family = AF_INET6;
  six.sin6_port = htons(port);
  std::memcpy(&six.sin6_addr, address.raw().data(), 16);
  return sizeof six;
}

std::optional<Endpoint> Endpoint::from_sockaddr(const sockaddr* address, socklen_t length) {
  if (address->sa_family == AF_INET && length >= sizeof(sockaddr_in)) {
    const auto* four = reinterpret_cast<const sockaddr_in*>(address);
    return Endpoint{Address::v4(ntohl(four->sin_addr.s_addr)), ntohs(four->sin_port)};
  }
  if (address->sa_family == AF_INET6 && length >= sizeof(sockaddr_in6)) {
    const auto* six = reinterpret_cast<const sockaddr_in6*>(address);
    Address::Raw raw{};
    std::memcpy(raw.data(), &six->sin6_addr, 16);
    return Endpoint{Address(raw), ntohs(six->sin6_port)};
  }
  return std::nullopt;
}

std::optional<Cidr> Cidr::make(Address address, unsigned prefix) {
  const bool four = address.is_v4();
  if (prefix > (four ? 32U : 128U)) return std::nullopt;
  const unsigned bits = four ? prefix + kMappedBits : prefix;
  Address::Raw raw = address.raw();
  for (unsigned bit = bits; bit < 128; ++bit) {
    raw[bit / 8] = static_cast<std::uint8_t>(raw[bit / 8] & ~(0x80U >> (bit % 8)));
  }
  Cidr result;
  result.first_ = Address(raw);
  result.prefix_ = prefix;
  result.v4_ = four;
  return result;
}

std::optional<Cidr> Cidr::parse(std::string_view text) {
  const auto slash = text.find('/');
  const std::string_view host = text.substr(0, slash);
  const auto address = Address::parse(host);
  if (!address) return std::nullopt;
  const bool written_as_v6 = host.find(':') != std::string_view::npos;
  const unsigned width = written_as_v6 ? 128 : 32;
  unsigned prefix = width;
  if (slash != std::string_view::npos) {
    const auto number = parse_number(text.substr(slash + 1), width);
    if (!number) return std::nullopt;
    prefix = *number;
  }
  if (written_as_v6 && address->is_v4()) {
    // A range of mapped addresses is a range of IPv4 addresses, if it lies within ::ffff:0:0/96.
    if (prefix < kMappedBits) return std::nullopt;
    prefix -= kMappedBits;
  }
  return make(*address, prefix);
}

Address Cidr::last() const {
  const unsigned bits = v4_ ? prefix_ + kMappedBits : prefix_;
  Address::Raw raw = first_.raw();
  for (unsigned bit = bits; bit < 128; ++bit) {
    raw[bit / 8] = static_cast<std::uint8_t>(raw[bit / 8] | (0x80U >> (bit % 8)));
  }
  return Address(raw);
}

bool Cidr::contains(const Address& address) const {
  return address.is_v4() == v4_ && first_ <= address && address <= last();
}

std::string Cidr::to_string() const { return first_.to_string() + "/" + std::to_string(prefix_); }

}  // namespace sallyport
