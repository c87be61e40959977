// SPDX-License-Identifier: Apache-2.0
// Gives the test program a network of its own in which 198.18.0.0/24 and 2001:db8::/64 are local:
// addresses that a boundary can open, unlike loopback's. Nothing leaves it. Works for any user
// whose kernel lets it make a user namespace.
#pragma once

#include <gtest/gtest.h>
#include <sched.h>
#include <unistd.h>

#include <cstdlib>

namespace sallyport::test {

class OwnNetwork : public testing::Environment {
 public:
  void SetUp() override {
    const int flags = ::geteuid() == 0 ? CLONE_NEWNET : CLONE_NEWUSER | CLONE_NEWNET;
    ASSERT_EQ(::unshare(flags), 0) << "cannot make a network namespace";
    ASSERT_EQ(std::system("ip link set lo up && ip address add 198.18.0.1/24 dev lo && "
                          "ip -6 address add 2001:db8::1/128 dev lo nodad"),
              0);
  }
};

inline testing::Environment* const own_network = testing::AddGlobalTestEnvironment(new OwnNetwork);

}  // namespace sallyport::test
