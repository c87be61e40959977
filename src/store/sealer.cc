// SPDX-License-Identifier: Apache-2.0
#include "store/sealer.h"

namespace sallyport::store {
namespace {

constexpr char kPlain = '\0';

class PlainSealer : public Sealer {
 public:
  Result<std::string> seal(const Secret& secret, std::string_view) override {
    std::string sealed(1, kPlain);
    sealed += secret.reveal();
    return sealed;
  }
  Result<Secret> open(std::string_view sealed, std::string_view purpose) override {
    if (sealed.empty() || sealed.front() != kPlain) {
      return fail(Code::internal, "the store's " + std::string(purpose) +
                                      " was sealed by a key this daemon does not have");
    }
    return Secret(sealed.substr(1));
  }
};

}  // namespace

std::unique_ptr<Sealer> plain_sealer() { return std::make_unique<PlainSealer>(); }

}  // namespace sallyport::store
