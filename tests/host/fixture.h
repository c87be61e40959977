// SPDX-License-Identifier: Apache-2.0
// One sandbox in front of one internet, for tests with real packets.
#pragma once

#include <gtest/gtest.h>

#include <initializer_list>
#include <vector>

#include "host/lab.h"
#include "host/packets.h"

namespace sallyport::host::lab {

class NetworkTest : public testing::Test {
 protected:
  static std::vector<Cidr> ranges(std::initializer_list<const char*> texts) {
    std::vector<Cidr> out;
    for (const auto* text : texts) out.push_back(*Cidr::parse(text));
    return out;
  }
  static AddressPolicy allow_all() {
    AddressPolicy policy;
    policy.forward_all = true;
    return policy;
  }
  // Always with the beacon, so that Sandbox::seen() works.
  static AddressPolicy allow(std::initializer_list<const char*> texts) {
    AddressPolicy policy;
    policy.allowed = ranges(texts);
    policy.allowed.push_back(*Cidr::parse(kBeacon));
    return policy;
  }
  [[nodiscard]] const Fd& guest() const { return sandbox.guest->ns; }

  Internet internet;
  Sandbox sandbox{internet, "t", 3};
  SandboxAddresses at = sandbox.at();
  Address node4 = *Address::parse("198.18.0.1"), node6 = *Address::parse("2001:db8::1");
};

}  // namespace sallyport::host::lab
