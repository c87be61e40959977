// SPDX-License-Identifier: Apache-2.0
// The router namespace with real packets: what reaches the internet is counted there, not guessed at here.
#include <gtest/gtest.h>

#include "host/lab.h"

namespace sallyport::host {
namespace {

using lab::dial;

AddressPolicy allow_all() {
  AddressPolicy policy;
  policy.forward_all = true;
  return policy;
}

std::vector<Cidr> ranges(std::initializer_list<const char*> texts) {
  std::vector<Cidr> out;
  for (const auto* text : texts) out.push_back(*Cidr::parse(text));
  return out;
}

class Network : public testing::Test {
 protected:
  lab::Internet internet;
  lab::Sandbox sandbox{internet, "t", 3};
};

TEST_F(Network, allow_all_is_forwarded_and_masqueraded_in_both_families) {
  const Fd server4 = lab::tcp_listener(internet.internet_ns, "198.18.1.10:80");
  const Fd server6 = lab::tcp_listener(internet.internet_ns, "[2001:db8:1::10]:80");
  sandbox.apply(allow_all());
  EXPECT_EQ(dial(sandbox.guest.ns, "198.18.1.10:80").error, 0);
  EXPECT_EQ(dial(sandbox.guest.ns, "[2001:db8:1::10]:80").error, 0);
  for (const auto& packet : internet.seen()) {
    EXPECT_TRUE(packet.source == *Address::parse("198.18.0.1") || packet.source == *Address::parse("2001:db8::1"))
        << packet.source.to_string();
  }
}

}  // namespace
}  // namespace sallyport::host
