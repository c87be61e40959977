// SPDX-License-Identifier: Apache-2.0
// Name lookups on the host side as an interface, so that the firewall's sessions can be tested
// without a network. A lookup has a deadline of its own and always ends. Whether a name may be
// looked up at all is the caller's decision (policy::decide_dns, R-081): a resolver sends whatever
// it is asked.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "base/address.h"
#include "base/result.h"

namespace sallyport {

class Resolver {
 public:
  virtual ~Resolver() = default;

  struct Resolution {
    std::vector<Address>
        addresses;  // IPv6 first (RFC 6724), each family in the order of the answer
    int rcode = 0;  // of the DNS: 0 NOERROR (no addresses then means NODATA), 3 NXDOMAIN
  };

  // The addresses of a name, by A and AAAA in parallel. timed_out and unavailable are errors; an
  // answer that says "no" is a Resolution with its rcode. `name` in presentation form, trailing dot
  // or not.
  virtual boost::asio::awaitable<Result<Resolution>> resolve(std::string name, bool want4,
                                                             bool want6) = 0;

  // The addresses known at this moment, without asking anybody; empty when resolve() has to be
  // asked. For the path of a connection, which then waits for nothing.
  [[nodiscard]] virtual std::vector<Address> known(const std::string& name) {
    (void)name;
    return {};
  }

  // The whole answer to one question (class IN) as a DNS message, rcode and CNAME chain included;
  // its id, flags and OPT are the resolver's own and the caller replaces them. A message of any
  // rcode is a value.
  virtual boost::asio::awaitable<Result<std::vector<std::uint8_t>>> query(std::string name,
                                                                          std::uint16_t type) = 0;
};

}  // namespace sallyport
