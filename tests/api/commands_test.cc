// SPDX-License-Identifier: Apache-2.0
// Commands: spec/api.md 1.6, R-104 to R-106.
#include "api/utf8.h"
#include "support/test_api.h"

namespace sallyport {
namespace {

class CommandsApi : public test::ApiTest {
 protected:
  std::string start(const std::string& id, const std::string& command,
                    const std::string& args = "[]") {
    const auto answer =
        call("POST", at(id, "/cmd"), R"({"command":")" + command + R"(","args":)" + args + "}");
    EXPECT_EQ(answer.status, 200) << answer.body;
    EXPECT_TRUE(answer.json().at("command").at("exitCode").is_null());
    return std::string(answer.json().at("command").at("id").as_string());
  }
};

TEST_F(CommandsApi, a_waiting_call_is_two_command_records_with_the_output_between) {
  const std::string id = session();
  const auto answer = run(id, "echo", R"(["hello","world"])");
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(answer.header("Content-Type"), "application/x-ndjson")
      << "compared for equality by clients";
  const auto lines = answer.lines();
  ASSERT_EQ(lines.size(), 3U);
  const json::object& first = lines[0].at("command").as_object();
  EXPECT_TRUE(first.at("exitCode").is_null());
  EXPECT_EQ(first.at("name").as_string(), "echo");
  EXPECT_EQ(first.at("args").as_array().size(), 2U);
  EXPECT_EQ(first.at("sessionId").as_string(), id);
  EXPECT_EQ(first.at("cwd").as_string(), "/vercel");
  EXPECT_EQ(lines[1].at("data").as_string(), "hello world\n");
  const json::object& last = lines[2].at("command").as_object();
  EXPECT_EQ(last.at("id"), first.at("id"));
  EXPECT_EQ(last.at("exitCode").as_int64(), 0);
  EXPECT_TRUE(last.contains("durationMs"));
}

TEST_F(CommandsApi, exit_codes_follow_the_shell) {
  const std::string id = session();
  const auto code = [&](const std::string& command, const std::string& args) {
    return run(id, command, args).lines().back().at("command").at("exitCode").as_int64();
  };
  EXPECT_EQ(code("exit", R"(["3"])"), 3);
  EXPECT_EQ(code("signal", R"(["2"])"), 130);
  EXPECT_EQ(code("signal", R"(["9"])"), 137);
  EXPECT_EQ(code("signal", R"(["15"])"), 143);
  EXPECT_EQ(code("signal", R"(["15","timed out"])"), 137);
}

TEST_F(CommandsApi, a_missing_executable_is_refused_before_anything_streams) {
  const std::string id = session();
  for (const char* more : {R"(,"wait":true,"logs":true)", ""}) {
    const auto answer =
        call("POST", at(id, "/cmd"), std::string(R"({"command":"no-such")") + more + "}");
    EXPECT_EQ(answer.status, 400);
    EXPECT_EQ(answer.error_code(), "executable_not_found");
  }
  EXPECT_TRUE(call("GET", at(id, "/cmd")).json().at("commands").as_array().empty());
}

TEST_F(CommandsApi, environment_is_image_then_sandbox_then_command) {
  const std::string id = session("web", R"(,"env":{"A":"sandbox","LANG":"de"})");
  EXPECT_EQ(output(run(id, "cat-env", R"(["PATH"])")), "/usr/bin");
  EXPECT_EQ(output(run(id, "cat-env", R"(["LANG"])")), "de");
  EXPECT_EQ(output(run(id, "cat-env", R"(["A"])", R"(,"env":{"A":"command"})")), "command");
}

// SB-008
TEST_F(CommandsApi, sudo_runs_as_root_and_says_who_asked) {
  const std::string id = session();
  EXPECT_EQ(output(run(id, "whoami"), "stderr"), "ubuntu");
  EXPECT_EQ(output(run(id, "whoami", "[]", R"(,"sudo":true)"), "stderr"), "root");
  EXPECT_EQ(output(run(id, "cat-env", R"(["SUDO_USER"])", R"(,"sudo":true)")), "ubuntu");
  EXPECT_EQ(output(run(id, "cat-env", R"(["HOME"])", R"(,"sudo":true)")), "/root");
}

TEST_F(CommandsApi, cwd_is_absolute_or_from_the_sessions) {
  const std::string id = session();
  EXPECT_EQ(output(run(id, "pwd")), "/vercel");
  EXPECT_EQ(output(run(id, "pwd", "[]", R"(,"cwd":"src/x")")), "/vercel/src/x");
  EXPECT_EQ(output(run(id, "pwd", "[]", R"(,"cwd":"/tmp")")), "/tmp");
}

// R-106, spec/api.md 1.6: cut anywhere, escaped everywhere, nothing but ASCII on the wire.
TEST_F(CommandsApi, characters_cut_between_pieces_arrive_whole_and_escaped) {
  const std::string id = session();
  // e-acute, U+2028, an emoji (a surrogate pair in JSON), cut at every byte.
  const auto answer = run(id, "bytes", R"(["c3","a9","e2","80","a8","f0","9f","98","80","0a"])");
  EXPECT_EQ(output(answer), "\xc3\xa9\xe2\x80\xa8\xf0\x9f\x98\x80\n");
  for (const char c : answer.body)
    EXPECT_TRUE(c >= 0 && (c >= 0x20 || c == '\n')) << "raw byte " << static_cast<int>(c);
  EXPECT_NE(answer.body.find("\\u00e9"), std::string::npos);
  EXPECT_NE(answer.body.find("\\u2028"), std::string::npos);
}

TEST_F(CommandsApi, bytes_that_are_no_text_become_replacement_characters) {
  const std::string id = session();
  EXPECT_EQ(output(run(id, "bytes", R"(["ff41","c3"])")),
            "\xef\xbf\xbd"
            "A"
            "\xef\xbf\xbd")
      << "an unfinished character at the end too";
}

TEST_F(CommandsApi, bad_requests_name_the_field) {
  const std::string id = session();
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"{}", "$.command"},
      {R"({"command":""})", "$.command"},
      {R"({"command":"a","args":"b"})", "$.args"},
      {R"({"command":"a","args":[1]})", "$.args[0]"},
      {R"({"command":"a","env":{"":"x"}})", "$.env"},
      {R"({"command":"a","timeout":99})", "$.timeout"},
      {R"({"command":"a","logs":true})", "$.logs"},
      {R"({"command":"a","shell":true})", "$.shell"},
      {R"({"command":"a\u0000b"})", "$.command"}};
  for (const auto& [body, place] : cases) {
    const auto answer = call("POST", at(id, "/cmd"), body);
    EXPECT_EQ(answer.status, 400) << body;
    EXPECT_NE(answer.error_message().find(place), std::string::npos) << answer.error_message();
  }
}

TEST_F(CommandsApi, python_may_ask_to_wait_in_the_query) {
  const std::string id = session();
  const auto answer =
      call("POST", at(id, "/cmd?wait=true&logs=true"), R"({"command":"echo","args":["x"]})");
  EXPECT_EQ(answer.header("Content-Type"), "application/x-ndjson");
  EXPECT_EQ(output(answer), "x\n");
}

TEST_F(CommandsApi, logs_replay_from_the_beginning_for_several_readers) {
  const std::string id = session();
  const std::string command = start(id, "echo", R"(["again"])");
  for (int i = 0; i < 2; ++i) {
    const auto logs = call("GET", at(id, "/cmd/" + command + "/logs"));
    EXPECT_EQ(logs.header("Content-Type"), "application/x-ndjson");
    EXPECT_EQ(output(logs), "again\n");
    for (const auto& line : logs.lines())
      EXPECT_FALSE(line.contains("command")) << "only stream records";
  }
  const auto waited = call("GET", at(id, "/cmd/" + command + "?wait=true"));
  EXPECT_EQ(waited.json().at("command").at("exitCode").as_int64(), 0);
  EXPECT_EQ(call("GET", at(id, "/cmd")).json().at("commands").as_array().size(), 1U);
  EXPECT_EQ(call("GET", at(id, "/cmd/cmd_nope")).status, 404);
  EXPECT_EQ(call("GET", at(id, "/cmd/cmd_nope/logs")).status, 404);
}

TEST_F(CommandsApi, kill_ends_a_command_and_a_waiting_call_sees_it) {
  const std::string id = session();
  test::HttpConnection waiting(socket);
  waiting.send(
      test::render_http("POST", at(id, "/cmd"), R"({"command":"hang","wait":true,"logs":true})"));
  const std::string begin = waiting.read_until("hanging\\n");
  const std::size_t at_id = begin.find("cmd_");
  const std::string command = begin.substr(at_id, begin.find('"', at_id) - at_id);
  EXPECT_EQ(call("POST", at(id, "/cmd/" + command + "/kill"), R"({"signal":2})").status, 200);
  EXPECT_NE(waiting.read_all().find("\"exitCode\":130"), std::string::npos);
  EXPECT_EQ(call("POST", at(id, "/cmd/" + command + "/kill"), "{}")
                .json()
                .at("command")
                .at("exitCode")
                .as_int64(),
            130)
      << "again is fine";
  EXPECT_EQ(call("POST", at(id, "/cmd/" + command + "/kill"), R"({"signal":99})").status, 400);
}

// spec/api.md 1.5: open streams end with an error record when the sandbox stops.
TEST_F(CommandsApi, streams_end_with_an_error_record_when_the_sandbox_stops) {
  const std::string id = session();
  test::HttpConnection waiting(socket);
  waiting.send(
      test::render_http("POST", at(id, "/cmd"), R"({"command":"hang","wait":true,"logs":true})"));
  const std::string begin = waiting.read_until("hanging\\n");
  const std::size_t at_id = begin.find("cmd_");
  const std::string command = begin.substr(at_id, begin.find('"', at_id) - at_id);
  call("POST", at(id, "/stop"));
  const std::string rest = waiting.read_all();
  EXPECT_NE(rest.find("sandbox_stream_closed"), std::string::npos) << rest;
  EXPECT_NE(rest.find("Sandbox stream was closed and is not accepting commands."),
            std::string::npos);
  EXPECT_EQ(call("GET", at(id, "/cmd/" + command)).status, 200) << "still readable";
  EXPECT_EQ(call("GET", at(id, "/cmd/" + command + "?wait=true")).status, 410);
}

// R-105, R-104: much output, read slowly or by nobody.
TEST_F(CommandsApi, output_larger_than_every_buffer_is_complete) {
  const std::string id = session();
  const auto answer = run(id, "flood", R"(["30000000"])");
  EXPECT_EQ(output(answer).size(), 30'000'000U);
  EXPECT_EQ(answer.lines().back().at("command").at("exitCode").as_int64(), 0);
}

TEST_F(CommandsApi, a_command_nobody_reads_ends_all_the_same) {
  const std::string id = session();
  const std::string command = start(id, "flood", R"(["100000000"])");
  EXPECT_EQ(call("GET", at(id, "/cmd/" + command + "?wait=true"))
                .json()
                .at("command")
                .at("exitCode")
                .as_int64(),
            0);
  const auto logs = call("GET", at(id, "/cmd/" + command + "/logs"));
  EXPECT_EQ(logs.lines().front().at("data").at("code").as_string(), "output_truncated")
      << "the reader is told what it missed";
}

TEST_F(CommandsApi, a_client_that_leaves_does_not_end_its_command) {
  const std::string id = session();
  test::HttpConnection waiting(socket);
  waiting.send(
      test::render_http("POST", at(id, "/cmd"), R"({"command":"hang","wait":true,"logs":true})"));
  const std::string begin = waiting.read_until("hanging\\n");
  waiting.close();
  const std::size_t at_id = begin.find("cmd_");
  const std::string command = begin.substr(at_id, begin.find('"', at_id) - at_id);
  EXPECT_TRUE(call("GET", at(id, "/cmd/" + command)).json().at("command").at("exitCode").is_null());
  call("POST", at(id, "/cmd/" + command + "/kill"), R"({"signal":9})");
  EXPECT_EQ(call("GET", at(id, "/cmd/" + command + "?wait=true"))
                .json()
                .at("command")
                .at("exitCode")
                .as_int64(),
            137);
}

// Property: however the bytes are cut, the text is the same.
TEST(Utf8Stream, gives_the_same_text_however_it_is_cut) {
  const std::string samples[] = {"plain",         "\xc3\xa9\xe2\x80\xa8\xf0\x9f\x98\x80",
                                 "\xff\xfe\xc3",  "\xe2\x80",
                                 "\xed\xa0\x80x", "\xf4\x90\x80\x80",
                                 "\xc0\xaf",      std::string("a\0b", 3),
                                 "\xf0\x9f\x98",  "\xe2\x28\xa1"};
  for (const std::string& sample : samples) {
    api::Utf8Stream whole;
    std::string expected = whole.push(as_bytes(sample));
    expected += whole.finish();
    for (std::size_t cut = 0; cut <= sample.size(); ++cut) {
      for (std::size_t second = cut; second <= sample.size(); ++second) {
        api::Utf8Stream pieces;
        std::string text = pieces.push(as_bytes(std::string_view(sample).substr(0, cut)));
        text += pieces.push(as_bytes(std::string_view(sample).substr(cut, second - cut)));
        text += pieces.push(as_bytes(std::string_view(sample).substr(second)));
        text += pieces.finish();
        EXPECT_EQ(text, expected);
      }
    }
  }
  api::Utf8Stream stream;
  EXPECT_EQ(stream.push(as_bytes("\xed\xa0\x80x")), "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbdx")
      << "a surrogate is no character";
}

}  // namespace
}  // namespace sallyport
