// SPDX-License-Identifier: Apache-2.0
// Takes Encrypted ClientHello out of SVCB and HTTPS records (RFC 9460, RFC 9849), so that the
// server name of a later connection stays readable (D-05, R-083).
#pragma once

#include <optional>
#include <string>

#include "base/bytes.h"

namespace sallyport::dns {

struct CleanSvcb {
  std::string data;
  bool changed = false;
};
// RDATA without the `ech` parameter, and without `ech` in `mandatory`: a client would drop a record
// whose mandatory parameter is missing. Nothing for RDATA that RFC 9460 calls malformed: what we
// cannot read may hide a key.
[[nodiscard]] std::optional<CleanSvcb> without_ech(Bytes data);

}  // namespace sallyport::dns
