// SPDX-License-Identifier: Apache-2.0
// Records between the sandbox's agent and the supervisor. R-105: both streams in one order. R-106:
// bytes, never text.
#include "guest/protocol.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "support/exact.h"

namespace sallyport::guest {
namespace {

using namespace std::string_literals;
using test::Exact;

ParseStop stop_of(std::string_view bytes) {
  const auto record = parse_record(Exact(bytes));
  EXPECT_FALSE(record);
  return record ? ParseStop::need_more : record.error();
}

//
TEST(GuestRecord, is_read_back_as_written) {
  for (const auto type :
       {RecordType::started, RecordType::out, RecordType::err, RecordType::exit}) {
    for (const auto& payload : {""s, "x"s, "\xff\xfe\x00\xc3"s, std::string(kMaxRecord, 'z')}) {
      const std::string bytes = render_record(type, payload);
      const Exact exact(bytes + "more");
      const auto record = parse_record(exact);
      ASSERT_TRUE(record);
      EXPECT_EQ(record->type, type);
      EXPECT_EQ(as_text(record->payload), payload);
      EXPECT_EQ(record->consumed, bytes.size());
    }
  }
}

TEST(GuestRecord, every_truncation_waits_for_more) {
  const std::string bytes = render_record(RecordType::exit, "{\"code\":0}");
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_EQ(stop_of(std::string_view(bytes).substr(0, size)), ParseStop::need_more) << size;
  }
}

TEST(GuestRecord, unknown_types_are_malformed_at_the_first_byte) {
  for (int type = 0; type < 256; ++type) {
    if (type >= 1 && type <= 4) continue;
    EXPECT_EQ(stop_of(std::string(1, static_cast<char>(type))), ParseStop::malformed) << type;
  }
}

TEST(GuestRecord, a_length_over_the_cap_is_refused_before_its_bytes_arrive) {
  EXPECT_EQ(stop_of("\x02\x00\x10\x00\x01"s), ParseStop::too_large);
  EXPECT_EQ(stop_of("\x02\xff\xff\xff\xff"s), ParseStop::too_large);
  EXPECT_EQ(stop_of("\x02\x00\x10\x00\x00"s), ParseStop::need_more);
}

//
TEST(GuestRecord, a_sequence_is_the_same_however_the_bytes_arrive) {
  std::mt19937 random(9);
  std::string bytes;
  std::string sent;
  for (int i = 0; i < 100; ++i) {
    std::string payload(random() % 200, '\0');
    for (char& c : payload) c = static_cast<char>(random());
    const auto type = random() % 2 ? RecordType::out : RecordType::err;
    bytes += render_record(type, payload);
    sent += std::to_string(static_cast<int>(type)) + payload;
  }
  std::string received;
  std::string buffer;
  for (std::size_t at = 0; at < bytes.size();) {
    const std::size_t size = std::min<std::size_t>(1 + random() % 50, bytes.size() - at);
    buffer += bytes.substr(at, size);
    at += size;
    for (;;) {
      const Exact exact(buffer);
      const auto record = parse_record(exact);
      if (!record) {
        ASSERT_EQ(record.error(), ParseStop::need_more);
        break;
      }
      received +=
          std::to_string(static_cast<int>(record->type)) + std::string(as_text(record->payload));
      buffer.erase(0, record->consumed);
    }
  }
  EXPECT_EQ(received, sent);
}

}  // namespace
}  // namespace sallyport::guest
