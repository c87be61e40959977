// SPDX-License-Identifier: Apache-2.0
// ClientHellos from anywhere: one answer however the bytes are cut, bounded waiting, names only in
// normal form.
#include <cstdint>
#include <string>

#include "base/check.h"
#include "base/host_name.h"
#include "tls/client_hello.h"

using namespace sallyport;
using namespace sallyport::tls;

namespace {

std::string describe(const std::expected<ClientHello, HelloStop>& hello) {
  if (!hello) {
    return "stop " + std::to_string(static_cast<int>(hello.error().stop)) + " " +
           std::to_string(static_cast<int>(hello.error().alert)) + " " +
           std::string(hello.error().why);
  }
  return hello->server_name.value_or("-") + " " + hello->alpn + " " + std::to_string(hello->size) +
         " " + std::to_string(hello->ech) + std::to_string(hello->versions.size());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const Bytes all{data, size};
  const auto whole = read_client_hello(all);
  ClientHelloReader reader;
  for (std::size_t upto = 0;; ++upto) {
    const auto part = reader.read(all.first(upto));
    if (part || part.error().stop != ParseStop::need_more || upto == size) {
      CHECK(describe(part) == describe(whole));
      break;
    }
  }
  if (!whole) {
    CHECK(whole.error().stop != ParseStop::need_more || size < kMaxHelloBytes);
    CHECK(!whole.error().why.empty());
    return 0;
  }
  CHECK(looks_like_tls(all) != FirstBytes::other ||
        data[2] > 4);  // a hello never hides behind another protocol
  CHECK(whole->size <= size && whole->size <= kMaxHelloBytes);
  CHECK(!whole->server_name || normal_host_name(*whole->server_name) == whole->server_name);
  CHECK(!(whole->server_name && whole->address_as_name));
  CHECK(whole->alert_version >= 0x0301 && whole->alert_version <= 0x0303);
  const auto shorter = read_client_hello(all.first(whole->size - 1));
  CHECK(!shorter && shorter.error().stop == ParseStop::need_more);
  return 0;
}
