// SPDX-License-Identifier: Apache-2.0
// The packets inside NFLOG messages are the guest's. Whatever comes: bounded output, and only plain
// reasons.
#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "base/check.h"
#include "firewall/conntrack_message.h"
#include "firewall/nflog_message.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const sallyport::Bytes input(data, size);
  const auto nflog = sallyport::firewall::parse_nflog(input);
  CHECK(nflog.packets.size() + nflog.skipped <= size / 16 + 1);
  for (const auto& packet : nflog.packets) {
    CHECK(!packet.reason.empty() && packet.reason.size() <= 32);
    CHECK(std::ranges::all_of(packet.reason, [](char c) {
      return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
    }));
  }
  const auto conntrack = sallyport::firewall::parse_conntrack(input);
  CHECK(conntrack.flows.size() + conntrack.skipped <= size / 16 + 1);
  return 0;
}
