// SPDX-License-Identifier: Apache-2.0
// Control frames: what is read is written to the same frame again, and no prefix of a frame is one.
#include <algorithm>
#include <boost/json/serialize.hpp>
#include <cstdint>

#include "base/check.h"
#include "firewall/control.h"

using namespace sallyport;
using namespace sallyport::firewall::control;

namespace {

// Boost.JSON 1.81 reads fractions to within a bit only, so what it writes need not read as the same
// number. No message of the protocol has any.
bool has_fraction(const json::value& value) {
  if (value.is_double()) return true;
  if (value.is_array())
    return std::ranges::any_of(value.get_array(),
                               [](const auto& item) { return has_fraction(item); });
  return value.is_object() && std::ranges::any_of(value.get_object(), [](const auto& member) {
           return has_fraction(member.value());
         });
}

}  // namespace

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
  CHECK(has_fraction(frame->body) || render_frame(again->body) == rendered);
  return 0;
}
