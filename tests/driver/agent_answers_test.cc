// SPDX-License-Identifier: Apache-2.0
#include "driver/agent_answers.h"

#include <gtest/gtest.h>

namespace sallyport::driver {
namespace {

using guest::RecordType;

guest::Record record(RecordType type, std::string_view payload) {
  return {type, as_bytes(payload), 0};
}
Result<CommandEvent> exit_of(std::string_view payload) {
  return read_event(record(RecordType::exit, payload));
}

TEST(AgentAnswers, exits_as_a_shell_says_them) {
  const auto plain = exit_of(R"({"code":3})");
  ASSERT_TRUE(plain);
  EXPECT_EQ(std::get<CommandExit>(*plain).code, 3);
  const auto killed = exit_of(R"({"signal":15,"timed_out":false})");
  ASSERT_TRUE(killed);
  EXPECT_EQ(std::get<CommandExit>(*killed).code, 143);
  const auto late = exit_of(R"({"signal":9,"timed_out":true})");
  ASSERT_TRUE(late);
  EXPECT_EQ(std::get<CommandExit>(*late).code, 137);
  EXPECT_TRUE(std::get<CommandExit>(*late).timed_out);
}

TEST(AgentAnswers, odd_exits_are_errors) {
  for (const char* text :
       {"", "{}", "[]", "null", R"({"code":256})", R"({"code":-1})", R"({"code":"0"})",
        R"({"code":1.5})", R"({"signal":0})", R"({"signal":65})",
        R"({"signal":99999999999999999999})", R"({"code":0,"code":1})", "{\"code\":0", "\xff"}) {
    EXPECT_FALSE(exit_of(text)) << text;
  }
  EXPECT_FALSE(exit_of(std::string(5000, ' ') + R"({"code":0})"));
}

TEST(AgentAnswers, started_twice_or_without_a_pid_is_an_error) {
  EXPECT_FALSE(read_event(record(RecordType::started, R"({"pid":1})")));
  EXPECT_EQ(read_started(record(RecordType::started, R"({"pid":42})")).value(), 42);
  for (const char* text :
       {"{}", R"({"pid":0})", R"({"pid":-5})", R"({"pid":4294967296})", R"({"pid":"7"})"}) {
    EXPECT_FALSE(read_started(record(RecordType::started, text))) << text;
  }
  EXPECT_FALSE(read_started(record(RecordType::out, R"({"pid":42})")));
}

TEST(AgentAnswers, output_is_bytes) {
  const std::string bytes("\0\xff\n", 3);
  const auto event = read_event(record(RecordType::err, bytes));
  ASSERT_TRUE(event);
  EXPECT_EQ(std::get<CommandOutput>(*event).stream, CommandOutput::Stream::err);
  EXPECT_EQ(std::get<CommandOutput>(*event).bytes, bytes);
}

TEST(AgentAnswers, refusals_keep_the_message_but_nothing_that_could_move_a_terminal) {
  const Error error = read_refusal(
      {.status = 404,
       .body = "{\"error\":{\"code\":\"executable_not_found\",\"message\":\"x\\u001b[2J\\ny\"}}"});
  EXPECT_EQ(error.code, Code::not_found);
  EXPECT_EQ(error.message, "x?[2J?y");
  EXPECT_EQ(read_refusal({.status = 400, .body = "{}"}).code, Code::invalid);
  EXPECT_EQ(read_refusal({.status = 503, .body = "\xff\xfe"}).code, Code::unavailable);
  const std::string longest = R"({"error":{"message":")" + std::string(3000, 'a') + R"("}})";
  EXPECT_LE(read_refusal({.status = 400, .body = longest}).message.size(), 300U);
}

TEST(AgentAnswers, health_needs_a_version_and_a_pid) {
  EXPECT_EQ(read_health({.status = 200, .body = R"({"agent":"0.1.0","pid":1})"}).value().version,
            "0.1.0");
  EXPECT_FALSE(read_health({.status = 500, .body = R"({"agent":"0.1.0","pid":1})"}));
  EXPECT_FALSE(read_health({.status = 200, .body = R"({"agent":1,"pid":1})"}));
  EXPECT_FALSE(read_health({.status = 200, .body = R"({"agent":"x"})"}));
}

}  // namespace
}  // namespace sallyport::driver
