// SPDX-License-Identifier: Apache-2.0
#include "firewall/control.h"

#include <boost/json/serialize.hpp>

#include "base/check.h"

namespace sallyport::firewall::control {
namespace {

constexpr std::size_t kHeader = 4;
// The policy's own depth (16) plus the envelope around it.
constexpr JsonLimits kLimits{.max_bytes = kMaxFrame, .max_depth = 24};

}  // namespace

Parse<Frame> parse_frame(Bytes buffered) {
  Reader in(buffered);
  const auto length = in.u32();
  if (!length) return std::unexpected(ParseStop::need_more);
  if (*length > kMaxFrame) return std::unexpected(ParseStop::too_large);
  const auto text = in.take(*length);
  if (!text) return std::unexpected(ParseStop::need_more);
  auto value = parse_json(as_text(*text), kLimits);
  if (!value || !value->is_object()) return std::unexpected(ParseStop::malformed);
  return Frame{std::move(value->get_object()), kHeader + *length};
}

std::string render_frame(const json::value& body) {
  CHECK(body.is_object());  // every message of the protocol is one
  const std::string text = json::serialize(body);
  CHECK(text.size() <= kMaxFrame);  // what may be this large (a policy) was bounded when it came in
  std::string out;
  out.reserve(kHeader + text.size());
  for (const int shift : {24, 16, 8, 0}) out += static_cast<char>((text.size() >> shift) & 0xff);
  return out += text;
}

}  // namespace sallyport::firewall::control
