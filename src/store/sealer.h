// SPDX-License-Identifier: Apache-2.0
// Between a secret and the disk. The store writes policies and environments only as what seal()
// returns, bound to the place they belong to (`purpose`, e.g. "policy/team/project/name"), so that
// a sealed value moved elsewhere does not open. Today's only sealer keeps the text readable for
// root, and the daemon refuses policies that carry credentials until the node key stands behind
// this door (SB-062).
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/secret.h"

namespace sallyport::store {

class Sealer {
 public:
  virtual ~Sealer() = default;
  [[nodiscard]] virtual Result<std::string> seal(const Secret& secret,
                                                 std::string_view purpose) = 0;
  [[nodiscard]] virtual Result<Secret> open(std::string_view sealed, std::string_view purpose) = 0;
};

// Not encrypted; the first byte says so, and a later sealer can still read it.
[[nodiscard]] std::unique_ptr<Sealer> plain_sealer();

}  // namespace sallyport::store
