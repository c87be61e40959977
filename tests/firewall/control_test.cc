// SPDX-License-Identifier: Apache-2.0
// Frames of the control protocol (FW-002 needs them whole or not at all).
#include "firewall/control.h"

#include <gtest/gtest.h>

#include <boost/json/serialize.hpp>
#include <random>

#include "support/exact.h"

namespace sallyport::firewall::control {
namespace {

using namespace std::string_literals;
using test::Exact;

std::string framed(std::string_view text) {
  const auto size = text.size();
  return std::string{static_cast<char>(size >> 24), static_cast<char>(size >> 16),
                     static_cast<char>(size >> 8), static_cast<char>(size)} +
         std::string(text);
}
ParseStop stop_of(std::string_view bytes) {
  const auto frame = parse_frame(Exact(bytes));
  EXPECT_FALSE(frame);
  return frame ? ParseStop::need_more : frame.error();
}

TEST(ControlFrame, is_read_back_as_written) {
  const json::object body{
      {"id", 1}, {"op", "prepare"}, {"policy", json::object{{"allow", json::array{"a.example"}}}}};
  const auto frame = parse_frame(Exact(render_frame(body) + "next"));
  ASSERT_TRUE(frame);
  EXPECT_EQ(frame->body, body);
  EXPECT_EQ(frame->consumed, render_frame(body).size());
}

TEST(ControlFrame, every_truncation_waits_for_more) {
  const std::string bytes = render_frame(json::object{{"id", 3}, {"ok", true}});
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_EQ(stop_of(std::string_view(bytes).substr(0, size)), ParseStop::need_more) << size;
  }
}

TEST(ControlFrame, a_length_over_the_cap_is_refused_before_its_bytes_arrive) {
  EXPECT_EQ(stop_of("\x01\x00\x00\x01"s), ParseStop::too_large);
  EXPECT_EQ(stop_of("\xff\xff\xff\xff"s), ParseStop::too_large);
  EXPECT_EQ(stop_of("\x01\x00\x00\x00"s), ParseStop::need_more);
}

TEST(ControlFrame, what_is_no_json_object_is_malformed) {
  for (const auto& text : {""s, "null"s, "[]"s, "1"s, "{"s, "{}{}"s, "{\"a\":1,\"a\":2}"s, "\xff"s,
                           "{\"a\":}"s, std::string(100, '[') + std::string(100, ']')}) {
    EXPECT_EQ(stop_of(framed(text)), ParseStop::malformed) << text;
  }
}

TEST(ControlFrame, frames_follow_each_other_however_the_bytes_arrive) {
  std::mt19937 random(5);
  std::string bytes;
  std::vector<json::object> sent;
  for (int i = 0; i < 50; ++i) {
    json::object body{{"id", i}, {"text", std::string(random() % 300, 'x')}};
    bytes += render_frame(body);
    sent.push_back(std::move(body));
  }
  std::vector<json::object> received;
  std::string buffer;
  for (std::size_t at = 0; at < bytes.size();) {
    const std::size_t size = std::min<std::size_t>(1 + random() % 100, bytes.size() - at);
    buffer += bytes.substr(at, size);
    at += size;
    for (auto frame = parse_frame(Exact(buffer)); frame; frame = parse_frame(Exact(buffer))) {
      received.push_back(std::move(frame->body));
      buffer.erase(0, frame->consumed);
    }
  }
  EXPECT_EQ(received, sent);
  EXPECT_TRUE(buffer.empty());
}

}  // namespace
}  // namespace sallyport::firewall::control
