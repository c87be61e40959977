// SPDX-License-Identifier: Apache-2.0
#include "guest/protocol.h"

#include "base/check.h"

namespace sallyport::guest {

Parse<Record> parse_record(Bytes buffered) {
  Reader in(buffered);
  const auto type = in.u8();
  if (!type) return std::unexpected(ParseStop::need_more);
  if (*type < static_cast<std::uint8_t>(RecordType::started) ||
      *type > static_cast<std::uint8_t>(RecordType::exit)) {
    return std::unexpected(ParseStop::malformed);
  }
  const auto length = in.u32();
  if (!length) return std::unexpected(ParseStop::need_more);
  if (*length > kMaxRecord) return std::unexpected(ParseStop::too_large);
  const auto payload = in.take(*length);
  if (!payload) return std::unexpected(ParseStop::need_more);
  return Record{static_cast<RecordType>(*type), *payload, buffered.size() - in.left()};
}

std::string render_record(RecordType type, std::string_view payload) {
  CHECK(payload.size() <= kMaxRecord);  // the agent reads its pipes in smaller pieces
  std::string out;
  out.reserve(5 + payload.size());
  out += static_cast<char>(type);
  for (const int shift : {24, 16, 8, 0}) out += static_cast<char>((payload.size() >> shift) & 0xff);
  return out += payload;
}

}  // namespace sallyport::guest
