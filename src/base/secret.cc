// SPDX-License-Identifier: Apache-2.0
#include "base/secret.h"

#include <openssl/crypto.h>

namespace sallyport {

// Moved by copy and wipe: a moved-from std::string may keep its short-string bytes.
Secret::Secret(Secret&& other) noexcept : value_(other.value_) { other.wipe(); }

Secret& Secret::operator=(Secret&& other) noexcept {
  if (this != &other) {
    wipe();
    value_ = other.value_;
    other.wipe();
  }
  return *this;
}

Secret::~Secret() { wipe(); }

void Secret::wipe() {
  OPENSSL_cleanse(value_.data(), value_.capacity());
  value_.clear();
}

}  // namespace sallyport
