// SPDX-License-Identifier: Apache-2.0
// HTTP/2 from a hostile agent, frame by frame, without a socket.
#include "driver/agent_session.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

namespace sallyport::driver {
namespace {

constexpr std::uint8_t kData = 0, kHeaders = 1, kRst = 3, kSettings = 4, kPush = 5, kPing = 6,
                       kGoaway = 7, kWindow = 8, kContinuation = 9;
constexpr std::uint8_t kEndStream = 1, kEndHeaders = 4, kAck = 1;
const std::string kStatus200 = "\x88";  // HPACK, indexed

std::string frame(std::uint8_t type, std::uint8_t flags, std::uint32_t stream,
                  const std::string& payload) {
  std::string out;
  for (const int shift : {16, 8, 0}) out += char(payload.size() >> shift);
  out += char(type);
  out += char(flags);
  for (const int shift : {24, 16, 8, 0}) out += char(stream >> shift);
  return out + payload;
}
// With the acknowledgement of ours, which puts our window in force.
std::string settings() { return frame(kSettings, 0, 0, "") + frame(kSettings, kAck, 0, ""); }
std::string head(std::uint32_t stream, std::uint8_t flags = 0) {
  return frame(kHeaders, kEndHeaders | flags, stream, kStatus200);
}

class Session : public ::testing::Test {
 protected:
  Session() { drain(); }
  // In an exactly sized heap buffer, so that ASan sees a read past it.
  bool feed(const std::string& bytes) {
    const auto exact = std::make_unique<std::uint8_t[]>(bytes.size());
    std::copy(bytes.begin(), bytes.end(), exact.get());
    const bool good = session.receive(Bytes(exact.get(), bytes.size()));
    drain();
    return good && !session.failed();
  }
  std::string drain() {
    std::string all;
    for (Bytes more = session.next_output(); !more.empty(); more = session.next_output())
      all += as_text(more);
    return all;
  }
  int ask(const std::string& body = "") {
    const auto stream = session.request("POST", "/v1/processes", body);
    drain();
    return stream.value();
  }
  AgentSession session;
};

TEST_F(Session, an_answer_in_one_piece) {
  const int stream = ask("{}");
  EXPECT_TRUE(feed(settings() + head(1) + frame(kData, kEndStream, 1, "hello")));
  EXPECT_EQ(session.status(stream), 200);
  EXPECT_EQ(session.take_body(stream), "hello");
  EXPECT_TRUE(session.ended(stream));
  EXPECT_FALSE(session.reset(stream));
}

TEST_F(Session, byte_by_byte_equals_all_at_once) {
  const int stream = ask();
  for (const char byte :
       settings() + head(1) + frame(kData, 0, 1, "hel") + frame(kData, kEndStream, 1, "lo")) {
    ASSERT_TRUE(feed(std::string(1, byte)));
  }
  EXPECT_EQ(session.take_body(stream), "hello");
  EXPECT_TRUE(session.ended(stream));
}

TEST_F(Session, an_answer_cut_anywhere_is_not_ended) {
  const std::string whole = settings() + head(1) + frame(kData, kEndStream, 1, "hello");
  for (std::size_t length = 0; length < whole.size(); ++length) {
    AgentSession cut;
    const int stream = cut.request("GET", "/v1/health", "").value();
    while (!cut.next_output().empty()) {
    }
    EXPECT_TRUE(cut.receive(as_bytes(whole.substr(0, length))));
    EXPECT_FALSE(cut.ended(stream)) << length;
  }
}

TEST_F(Session, garbage_ends_the_connection_for_good) {
  EXPECT_FALSE(feed("HTTP/1.1 200 OK\r\n\r\n"));
  EXPECT_TRUE(session.failed());
  EXPECT_FALSE(feed(settings()));
  EXPECT_FALSE(session.request("GET", "/", "").has_value());
}

TEST_F(Session, a_stream_never_holds_more_than_its_window) {
  const int stream = ask();
  ASSERT_TRUE(feed(settings() + head(1)));
  const std::string chunk(16384, 'x');
  std::size_t sent = 0;
  bool good = true;
  while (good && sent < 4 * kStreamWindow) {
    good = feed(frame(kData, 0, 1, chunk));
    sent += chunk.size();
  }
  // Too much is either the stream's end or the connection's; kept is at most a window.
  EXPECT_LE(session.take_body(stream).size(), kStreamWindow);
  EXPECT_TRUE(!good || session.reset(stream));
}

TEST_F(Session, taking_the_body_opens_the_window_again) {
  const int stream = ask();
  ASSERT_TRUE(feed(settings() + head(1)));
  const std::string chunk(16384, 'x');
  std::size_t got = 0;
  for (std::size_t i = 0; i < 100; ++i) {
    ASSERT_TRUE(feed(frame(kData, 0, 1, chunk))) << i;
    got += session.take_body(stream).size();
    drain();
  }
  EXPECT_EQ(got, 100 * chunk.size());
}

TEST_F(Session, a_stream_that_is_not_read_does_not_stop_the_others) {
  const int unread = ask();
  const int read = ask();
  ASSERT_TRUE(feed(settings() + head(1) + head(3)));
  const std::string chunk(16384, 'x');
  for (std::size_t i = 0; i < kStreamWindow / chunk.size(); ++i)
    ASSERT_TRUE(feed(frame(kData, 0, 1, chunk)));
  for (std::size_t i = 0; i < 2000; ++i) {
    ASSERT_TRUE(feed(frame(kData, 0, 3, chunk))) << i;
    ASSERT_EQ(session.take_body(read).size(), chunk.size());
    drain();
  }
  EXPECT_EQ(session.take_body(unread).size(), kStreamWindow);
}

TEST_F(Session, data_for_a_released_stream_is_dropped_and_does_not_use_up_the_connection) {
  const int stream = ask();
  ASSERT_TRUE(feed(settings() + head(1)));
  session.release(stream);
  drain();
  const std::string chunk(16384, 'x');
  for (int i = 0; i < 10; ++i) feed(frame(kData, 0, 1, chunk));
  EXPECT_EQ(session.take_body(stream), "");
  const int next = ask();
  EXPECT_TRUE(feed(head(3) + frame(kData, kEndStream, 3, "ok")));
  EXPECT_EQ(session.take_body(next), "ok");
}

TEST_F(Session, a_reset_stream_is_ended_but_not_properly) {
  const int stream = ask();
  EXPECT_TRUE(feed(settings() + head(1) + frame(kData, 0, 1, "part") +
                   frame(kRst, 0, 1, std::string("\0\0\0\2", 4))));
  EXPECT_TRUE(session.ended(stream));
  EXPECT_TRUE(session.reset(stream));
}

TEST_F(Session, an_informational_head_is_not_the_answer) {
  const int stream = ask();
  const std::string early =
      "\x48\x03"
      "103";  // literal :status 103
  EXPECT_TRUE(feed(settings() + frame(kHeaders, kEndHeaders, 1, early)));
  EXPECT_EQ(session.status(stream), 0);
  EXPECT_TRUE(feed(head(1, kEndStream)));
  EXPECT_EQ(session.status(stream), 200);
}

TEST_F(Session, a_status_that_is_no_number_gives_no_answer) {
  const int stream = ask();
  feed(settings() + frame(kHeaders, kEndHeaders | kEndStream, 1,
                          "\x48\x03"
                          "2x0"));
  EXPECT_EQ(session.status(stream), 0);
}

TEST_F(Session, an_answer_nobody_asked_for_is_an_error) {
  EXPECT_FALSE(feed(settings() + head(7, kEndStream)));
}

TEST_F(Session, a_push_is_an_error) {
  ask();
  EXPECT_FALSE(
      feed(settings() + frame(kPush, kEndHeaders, 1, std::string("\0\0\0\2", 4) + "\x82")));
}

TEST_F(Session, goaway_ends_what_it_names_and_everything_after) {
  const int stream = ask();
  feed(settings() + frame(kGoaway, 0, 0, std::string(8, '\0')));
  EXPECT_TRUE(session.ended(stream));
  EXPECT_FALSE(session.request("GET", "/", "").has_value() && !session.failed() &&
               !drain().empty());
}

TEST_F(Session, floods_of_control_frames_are_cut_off) {
  for (const std::string& each :
       {frame(kSettings, 0, 0, ""), frame(kPing, 0, 0, std::string(8, 'p'))}) {
    AgentSession flooded;
    while (!flooded.next_output().empty()) {
    }
    // Never drained: the peer does not read its acknowledgements.
    std::string flood;
    for (int i = 0; i < 20'000; ++i) flood += each;
    EXPECT_FALSE(flooded.receive(as_bytes(settings() + flood)));
  }
}

TEST_F(Session, a_header_block_without_end_is_cut_off) {
  ask();
  std::string block = settings() + frame(kHeaders, 0, 1, kStatus200);
  for (int i = 0; i < 100; ++i) block += frame(kContinuation, 0, 1, std::string(16000, '\x86'));
  EXPECT_FALSE(feed(block));
}

TEST_F(Session, windows_beyond_the_limit_are_an_error) {
  ask();
  EXPECT_FALSE(feed(settings() + frame(kWindow, 0, 0, "\x7f\xff\xff\xff") +
                    frame(kWindow, 0, 0, "\x7f\xff\xff\xff")));
}

TEST_F(Session, an_acknowledgement_of_nothing_is_an_error) {
  EXPECT_FALSE(feed(settings() + frame(kSettings, kAck, 0, "123456")));
}

TEST_F(Session, requests_are_bounded) {
  std::size_t count = 0;
  while (session.request("GET", "/", "").has_value() && count < 2 * kMaxAgentStreams) ++count;
  EXPECT_EQ(count, kMaxAgentStreams);
}

}  // namespace
}  // namespace sallyport::driver
