// SPDX-License-Identifier: Apache-2.0
// Names and records of RFC 1035 as they stand in a message; the grammar that message.cc and
// answer.cc share. A compression pointer must point before the name it ends, so every walk is
// shorter than the message.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/bytes.h"

namespace sallyport::dns {

inline constexpr std::size_t kHeaderSize = 12;
inline constexpr std::size_t kMaxWireName = 255;
inline constexpr std::uint16_t kClassIn = 1;

namespace flag {
inline constexpr std::uint16_t kAnswer = 0x8000;
inline constexpr std::uint16_t kOpcode = 0x7800;
inline constexpr std::uint16_t kTruncated = 0x0200;
inline constexpr std::uint16_t kRecursionDesired = 0x0100;
inline constexpr std::uint16_t kRecursionAvailable = 0x0080;
inline constexpr std::uint16_t kAuthenticData = 0x0020;
inline constexpr std::uint16_t kCheckingDisabled = 0x0010;
inline constexpr std::uint16_t kRcode = 0x000f;
}  // namespace flag

struct Header {
  std::uint16_t id = 0;
  std::uint16_t flags = 0;
  std::uint16_t questions = 0;
  std::uint16_t answers = 0;
  std::uint16_t authority = 0;
  std::uint16_t additional = 0;
};
[[nodiscard]] std::optional<Header> read_header(Bytes message);

// Uncompressed wire form, case kept: length, label, ..., 0.
[[nodiscard]] std::optional<std::string> read_name(Bytes message, std::size_t& at);
[[nodiscard]] bool same_name(std::string_view wire_a,
                             std::string_view wire_b);  // ASCII case folded
// Lower case, no trailing dot, "." for the root; a byte that no host name has becomes \DDD, a dot
// in a label too.
[[nodiscard]] std::string name_text(std::string_view wire);

struct WireQuestion {
  std::string name;  // wire form
  std::uint16_t type = 0;
  std::uint16_t klass = 0;
};
[[nodiscard]] std::optional<WireQuestion> read_question(Bytes message, std::size_t& at);

struct WireRecord {
  std::string owner;  // wire form
  std::uint16_t type = 0;
  std::uint16_t klass = 0;
  std::uint32_t ttl = 0;
  std::size_t data_at = 0;  // RDATA stays in the message: names in it may be compressed
  std::size_t data_size = 0;
};
[[nodiscard]] std::optional<WireRecord> read_record(Bytes message, std::size_t& at);

// An answer taken apart. OPT is in `additional` like the rest.
struct WireMessage {
  Header header;
  WireQuestion question;
  std::vector<WireRecord> answers;
  std::vector<WireRecord> authority;
  std::vector<WireRecord> additional;
};
// Exactly one question; every record read. Bytes behind the last record are not looked at.
[[nodiscard]] std::optional<WireMessage> read_message(Bytes message);

void put16(std::string& out, unsigned value);
void put32(std::string& out, std::uint32_t value);

// Writes records behind a message that already has its header and question, compressing names
// against all before.
class RecordWriter {
 public:
  explicit RecordWriter(std::string& out) : out_(out) {}
  void remember(std::size_t at,
                std::string_view wire_name);  // a name that already stands in the message
  // `data`: RDATA to write instead of the record's own. False: RDATA's names are malformed; nothing
  // was written.
  [[nodiscard]] bool put(Bytes message, const WireRecord& record,
                         const std::optional<std::string>& data);

 private:
  void put_name(std::string_view wire);
  bool put_data(Bytes message, const WireRecord& record);

  std::string& out_;
  std::unordered_map<std::string, std::size_t> known_;  // lower-case wire suffix -> where it stands
};

}  // namespace sallyport::dns
