// SPDX-License-Identifier: Apache-2.0
#include "guest/start_request.h"

#include <gtest/gtest.h>

namespace sallyport::guest {
namespace {

StartRequest full() {
  return {.command = "ls",
          .args = {"-l", "", "\xc3\xa9 \"quoted\"\n"},
          .cwd = "sub",
          .env = {{"B", "2"}, {"A", ""}},
          .user = "root",
          .timeout_ms = 1500};
}

TEST(StartRequest, rendering_then_parsing_is_identity_and_keeps_the_order_of_variables) {
  const auto parsed = parse_start_request(render_start_request(full()));
  ASSERT_TRUE(parsed) << parsed.error().message;
  EXPECT_EQ(*parsed, full());
}

TEST(StartRequest, only_the_command_is_needed) {
  const auto parsed = parse_start_request(R"({"command":"true"})");
  ASSERT_TRUE(parsed);
  EXPECT_EQ(*parsed, StartRequest{.command = "true"});
}

TEST(StartRequest, every_prefix_of_a_body_is_refused) {
  const std::string body = render_start_request(full());
  for (std::size_t length = 0; length < body.size(); ++length) {
    EXPECT_FALSE(parse_start_request(body.substr(0, length))) << length;
  }
}

class RefusedStart : public ::testing::TestWithParam<std::pair<const char*, const char*>> {};

TEST_P(RefusedStart, names_the_field) {
  const auto parsed = parse_start_request(GetParam().first);
  ASSERT_FALSE(parsed);
  EXPECT_NE(parsed.error().message.find(GetParam().second), std::string::npos)
      << parsed.error().message;
}

INSTANTIATE_TEST_SUITE_P(
    Bodies, RefusedStart,
    ::testing::Values(std::pair{"[]", "$"}, std::pair{R"({})", "command"},
                      std::pair{R"({"command":""})", "command"},
                      std::pair{R"({"command":1})", "command"},
                      std::pair{R"({"command":"a\u0000b"})", "command"},
                      std::pair{R"({"command":"a","args":"x"})", "args"},
                      std::pair{R"({"command":"a","args":[1]})", "args"},
                      std::pair{R"({"command":"a","env":[]})", "env"},
                      std::pair{R"({"command":"a","env":{"":"x"}})", "env"},
                      std::pair{R"({"command":"a","env":{"A=B":"x"}})", "env"},
                      std::pair{R"({"command":"a","env":{"A":1}})", "env"},
                      std::pair{R"({"command":"a","env":{"A":"1","A":"2"}})", "A"},
                      std::pair{R"({"command":"a","timeout_ms":-1})", "timeout_ms"},
                      std::pair{R"({"command":"a","timeout_ms":1.5})", "timeout_ms"},
                      std::pair{R"({"command":"a","tty":true})", "tty"}));

}  // namespace
}  // namespace sallyport::guest
