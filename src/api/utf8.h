// SPDX-License-Identifier: Apache-2.0
// Makes text out of a stream of bytes that is cut anywhere: a character that is split between two
// pieces waits for its rest, what is not UTF-8 becomes U+FFFD. One per stream; all pieces
// together give the same text however they are cut.
#pragma once

#include <string>
#include <string_view>

#include "base/bytes.h"

namespace sallyport::api {

class Utf8Stream {
 public:
  [[nodiscard]] std::string push(Bytes bytes);
  [[nodiscard]] std::string finish();  // what an unfinished character leaves

 private:
  std::string waiting_;  // at most three bytes, the beginning of a well-formed character
};

}  // namespace sallyport::api
