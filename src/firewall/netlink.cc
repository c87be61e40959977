// SPDX-License-Identifier: Apache-2.0
#include "firewall/netlink.h"

#include <linux/netlink.h>

#include <algorithm>

namespace sallyport::firewall::netlink {

namespace {
constexpr std::size_t aligned(std::size_t length) { return (length + 3) & ~std::size_t{3}; }
}  // namespace

std::optional<Message> next_message(Bytes& rest) {
  const auto header = native<nlmsghdr>(rest);
  if (!header || header->nlmsg_len < sizeof(nlmsghdr) || header->nlmsg_len > rest.size())
    return std::nullopt;
  const Message message{header->nlmsg_type,
                        rest.subspan(sizeof(nlmsghdr), header->nlmsg_len - sizeof(nlmsghdr))};
  rest = rest.subspan(std::min(aligned(header->nlmsg_len), rest.size()));
  return message;
}

std::optional<Attribute> next_attribute(Bytes& rest) {
  const auto header = native<nlattr>(rest);
  if (!header || header->nla_len < sizeof(nlattr) || header->nla_len > rest.size())
    return std::nullopt;
  const Attribute attribute{static_cast<std::uint16_t>(header->nla_type & NLA_TYPE_MASK),
                            rest.subspan(sizeof(nlattr), header->nla_len - sizeof(nlattr))};
  rest = rest.subspan(std::min(aligned(header->nla_len), rest.size()));
  return attribute;
}

}  // namespace sallyport::firewall::netlink
