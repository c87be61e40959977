// SPDX-License-Identifier: Apache-2.0
// The framing of netlink: messages in a datagram, attributes in a message. Native byte order,
// 4-byte alignment; what does not fit ends the walk.
#pragma once

#include <cstdint>
#include <cstring>
#include <optional>

#include "base/bytes.h"

namespace sallyport::firewall::netlink {

struct Message {
  std::uint16_t type = 0;
  Bytes body;
};
struct Attribute {
  std::uint16_t type = 0;  // without the flag bits
  Bytes data;
};

template <class T>
std::optional<T> native(Bytes bytes) {
  if (bytes.size() < sizeof(T)) return std::nullopt;
  T value;
  std::memcpy(&value, bytes.data(), sizeof value);
  return value;
}

// Both take one from the front of `rest`. At the end, and on a length that does not fit, they
// return nothing and leave `rest` empty or not: empty means that everything was read.
std::optional<Message> next_message(Bytes& rest);
std::optional<Attribute> next_attribute(Bytes& rest);

// Calls f(Attribute) for each; false if the list did not end where it should.
template <class F>
bool each_attribute(Bytes attributes, F f) {
  while (const auto attribute = next_attribute(attributes)) f(*attribute);
  return attributes.empty();
}

}  // namespace sallyport::firewall::netlink
