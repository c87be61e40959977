// SPDX-License-Identifier: Apache-2.0
// ldns as the independent reader of what src/dns writes.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/bytes.h"

namespace sallyport::dns {

struct LdnsView {
  int rcode = 0;
  bool truncated = false;
  bool edns = false;
  std::size_t udp_size = 0;
  std::string question;              // "Api.example. IN A" as ldns prints it
  std::vector<std::string> answers;  // one line each, lower case
  std::vector<std::string> authority;
  std::vector<std::string> additional;  // without OPT
};
[[nodiscard]] std::optional<LdnsView> read_with_ldns(Bytes message);

}  // namespace sallyport::dns
