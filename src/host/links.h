// SPDX-License-Identifier: Apache-2.0
// Links, addresses, routes and neighbours over one rtnetlink socket (libnl-route), without running
// `ip`. The socket belongs to the network namespace of the thread that opened it, and so does
// everything asked through it.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/address.h"
#include "base/fd.h"
#include "base/result.h"

struct nl_sock;

namespace sallyport::host {

using Mac = std::array<std::uint8_t, 6>;

struct VethEnd {
  std::string name;
  Mac mac{};
};

struct LinkInfo {
  unsigned index = 0;
  std::string name;
  std::string alias;
  unsigned mtu = 0;
  bool running = false;
};

class Links {
 public:
  [[nodiscard]] static Result<Links> open();

  // One end here, the other straight into `peer_namespace`. Both down.
  [[nodiscard]] Result<> add_veth(const VethEnd& here, const VethEnd& peer,
                                  const Fd& peer_namespace, unsigned mtu);
  [[nodiscard]] Result<LinkInfo> find(const std::string& name);  // not_found
  [[nodiscard]] Result<std::vector<LinkInfo>> list();
  [[nodiscard]] Result<> up(unsigned index);
  // After up(): the kernel finishes on work queues. Until then a link whose other end came up last
  // drops what is sent through it, and an IPv6 address is used as a source but does not receive.
  // Waits for both (some 100 us, at most two seconds).
  [[nodiscard]] Result<> wait_until_ready(const std::string& name, const Address& address6);
  [[nodiscard]] Result<> set_alias(unsigned index, const std::string& alias);
  [[nodiscard]] Result<> remove(const std::string& name);  // succeeds if it is not there

  // Without duplicate address detection: the other end is ours and waits for nobody.
  [[nodiscard]] Result<> add_address(unsigned index, const Address& address, unsigned prefix);
  [[nodiscard]] Result<> add_route(const Cidr& to, unsigned index,
                                   const std::optional<Address>& gateway);
  // A neighbour that never needs asking for and that nobody can talk us out of.
  [[nodiscard]] Result<> add_neighbour(unsigned index, const Address& address, const Mac& mac);
  // Delivers packets with `mark` locally, whatever their destination (TPROXY), for both families.
  [[nodiscard]] Result<> deliver_locally(std::uint32_t mark, std::uint32_t table);
  // MTU of the link of the default route, the smaller of both families; nothing without a default
  // route.
  [[nodiscard]] std::optional<unsigned> default_route_mtu();

 private:
  struct Close {
    void operator()(nl_sock* socket) const;
  };
  explicit Links(nl_sock* socket) : socket_(socket) {}
  std::unique_ptr<nl_sock, Close> socket_;
};

}  // namespace sallyport::host
