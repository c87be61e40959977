// SPDX-License-Identifier: Apache-2.0
// IPv4 and IPv6 addresses and prefixes as one type, so that no code has a v4 and a v6 copy.
// An IPv4 address is kept as its IPv4-mapped form (RFC 4291 s2.5.5.2): a mapped address that a
// guest writes therefore *is* the IPv4 address. A Cidr belongs to one family: ::/0 does not
// contain IPv4.
#pragma once

#include <sys/socket.h>

#include <array>
#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace sallyport {

class Address {
 public:
  using Raw = std::array<std::uint8_t, 16>;  // network byte order

  Address() = default;  // "::"
  explicit Address(const Raw& raw) : raw_(raw) {}
  static Address v4(std::uint32_t host_order);
  static std::optional<Address> parse(std::string_view text);  // no port, no zone, no brackets

  [[nodiscard]] bool is_v4() const;
  [[nodiscard]] std::uint32_t v4_host_order() const;  // CHECKs is_v4()
  [[nodiscard]] const Raw& raw() const { return raw_; }
  [[nodiscard]] std::string to_string() const;

  // The IPv4 address carried inside an IPv6 one: IPv4-compatible, well-known NAT64 (RFC 6052), 6to4
  // (RFC 3056), Teredo (RFC 4380). Mapped addresses are IPv4 already and give nothing here.
  [[nodiscard]] std::optional<Address> embedded_v4() const;

  auto operator<=>(const Address&) const = default;

 private:
  Raw raw_{};
};

struct Endpoint {
  Address address;
  std::uint16_t port = 0;  // host byte order

  [[nodiscard]] std::string to_string() const;  // "1.2.3.4:80", "[2001:db8::1]:80"
  static std::optional<Endpoint> parse(std::string_view text);

  // As AF_INET or AF_INET6 by is_v4(). Returns the length used.
  socklen_t to_sockaddr(sockaddr_storage& out) const;
  static std::optional<Endpoint> from_sockaddr(const sockaddr* address, socklen_t length);

  auto operator<=>(const Endpoint&) const = default;
};

class Cidr {
 public:
  Cidr() = default;  // ::/128
  // Masks host bits. `prefix` counts in the address's own family (0-32 or 0-128).
  static std::optional<Cidr> make(Address address, unsigned prefix);
  // "10.0.0.0/8", "2001:db8::/32", a bare address is /32 or /128; ::ffff:10.0.0.0/104
  // is 10.0.0.0/8.
  static std::optional<Cidr> parse(std::string_view text);

  [[nodiscard]] bool is_v4() const { return v4_; }
  [[nodiscard]] unsigned prefix() const { return prefix_; }
  [[nodiscard]] Address first() const { return first_; }
  [[nodiscard]] Address last() const;
  [[nodiscard]] bool contains(const Address& address) const;
  [[nodiscard]] std::string to_string() const;

  auto operator<=>(const Cidr&) const = default;

 private:
  Address first_;
  unsigned prefix_ = 128;
  bool v4_ = false;
};

}  // namespace sallyport
