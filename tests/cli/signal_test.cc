// SPDX-License-Identifier: Apache-2.0
// Ctrl-C while a command runs: the signal goes to the command, and the program exits with the
// command's status.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <future>

#include "base/fd.h"
#include "cli/fake_api.h"

namespace sallyport::cli {
namespace {

TEST(Signals, reach_the_command_in_the_sandbox) {
  std::promise<void> killed;
  const std::shared_future<void> hold = killed.get_future().share();
  FakeApi api([&](const Asked& asked) -> FakeApi::Answer {
    if (asked.line.starts_with("GET /v2/sandboxes/web"))
      return {200, {R"({"session":{"id":"sbx_1"}})"}, false, {}};
    if (asked.line == "POST /v2/sandboxes/sessions/sbx_1/cmd/cmd_9/kill") {
      killed.set_value();
      return {200, {"{}"}, false, {}};
    }
    return {200,
            {"{\"command\":{\"id\":\"cmd_9\",\"exitCode\":null}}\n{\"stream\":\"stdout\",\"data\":"
             "\"ready\\n\"}\n",
             "{\"command\":{\"id\":\"cmd_9\",\"exitCode\":130}}\n"},
            false,
            hold};
  });
  int pipe_ends[2];
  ASSERT_EQ(::pipe2(pipe_ends, O_CLOEXEC), 0);
  Fd read_end(pipe_ends[0]);
  Fd write_end(pipe_ends[1]);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, write_end.get(), STDOUT_FILENO);
  const std::string program = SALLYPORT_BINARY_DIR "/bin/sandbox";
  std::vector<std::string> words = {program, "--api", api.address(), "exec",
                                    "web",   "--",    "sleep",       "1000"};
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  pid_t child = 0;
  ASSERT_EQ(posix_spawn(&child, program.c_str(), &actions, nullptr, arguments.data(), environ), 0);
  posix_spawn_file_actions_destroy(&actions);
  write_end.reset();
  char ready[6] = {};
  ASSERT_EQ(::read(read_end.get(), ready, 6), 6);  // its output has come, so the command is known
  ASSERT_EQ(::kill(child, SIGINT), 0);
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 130);
  EXPECT_EQ(api.asked().back().body, R"({"signal":2})");
}

}  // namespace
}  // namespace sallyport::cli
