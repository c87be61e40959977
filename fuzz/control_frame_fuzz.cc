// SPDX-License-Identifier: Apache-2.0
// Control frames: what is read is written to the same frame again, and no prefix of a frame is one.
#include <boost/json/serialize.hpp>
#include <cstdint>

#include "base/check.h"
#include "firewall/control.h"

using namespace sallyport;
using namespace sallyport::firewall::control;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const Bytes bytes{data, size};
  const auto frame = parse_frame(bytes);
  if (!frame) return 0;
  CHECK(frame->consumed <= size);
  const auto shorter = parse_frame(bytes.first(frame->consumed - 1));
  CHECK(!shorter && shorter.error() == ParseStop::need_more);
  const std::string rendered = render_frame(frame->body);
  const auto again = parse_frame(as_bytes(rendered));
  CHECK(again && again->consumed == rendered.size());
  CHECK(render_frame(again->body) == rendered);
  return 0;
}
