// SPDX-License-Identifier: Apache-2.0
// Records of an agent that may be hostile: a sequence is read to the same end, and what is read is
// written back alike.
#include <cstdint>
#include <string>

#include "base/check.h"
#include "guest/protocol.h"

using namespace sallyport;
using namespace sallyport::guest;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Bytes rest{data, size};
  for (;;) {
    const auto record = parse_record(rest);
    if (!record) {
      CHECK(record.error() != ParseStop::need_more || rest.size() < 5 + kMaxRecord);
      return 0;
    }
    CHECK(record->consumed == 5 + record->payload.size() && record->payload.size() <= kMaxRecord);
    CHECK(render_record(record->type, as_text(record->payload)) ==
          as_text(rest.first(record->consumed)));
    const auto shorter = parse_record(rest.first(record->consumed - 1));
    CHECK(!shorter && shorter.error() == ParseStop::need_more);
    rest = rest.subspan(record->consumed);
  }
}
