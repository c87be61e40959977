// SPDX-License-Identifier: Apache-2.0
// The real agent as a child of the test, spoken to by the real client. What needs a container is in
// tests/driver.
#include <gtest/gtest.h>
#include <pwd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <thread>

#include "guest/process_tree.h"
#include "support/live_agent.h"

namespace sallyport::test {
namespace {

using driver::CommandExit;
using driver::CommandOutput;
using guest::StartRequest;
using namespace std::chrono_literals;

std::string me() { return ::getpwuid(::geteuid())->pw_name; }

class Agent : public ::testing::Test {
 protected:
  StartRequest shell(const std::string& script) {
    return {.command = "sh",
            .args = {"-c", script},
            .cwd = "/",
            .env = {{"PATH", "/usr/bin:/bin"}},
            .user = me()};
  }
  Ran sh(const std::string& script) { return agent.run(shell(script)); }
  std::unique_ptr<driver::AgentCommand> start(StartRequest request) {
    auto command = agent.await(agent.client->start(std::move(request)));
    CHECK(command.has_value());
    return std::move(*command);
  }
  // Reads until stdout holds a whole line, which is how a script says that it is ready.
  std::string first_line(driver::AgentCommand& command) {
    std::string line;
    while (line.find('\n') == std::string::npos) {
      auto event = agent.await(command.next());
      CHECK(event.has_value() && std::holds_alternative<CommandOutput>(*event));
      line += std::get<CommandOutput>(*event).bytes;
    }
    return line;
  }
  // Waits, with a bound that only a failure reaches, for a fact that no event announces.
  static bool eventually(const std::function<bool()>& fact) {
    const auto end = std::chrono::steady_clock::now() + 10s;
    while (!fact()) {
      if (std::chrono::steady_clock::now() > end) return false;
      std::this_thread::sleep_for(5ms);
    }
    return true;
  }
  bool nothing_left() {
    return eventually([this] { return guest::descendants(agent.pid()).empty(); });
  }

  LiveAgent agent{SALLYPORT_TEST_AGENT};
};

TEST_F(Agent, says_its_version_and_pid) {
  const auto health = agent.await(agent.client->health());
  ASSERT_TRUE(health);
  EXPECT_EQ(health->pid, agent.pid());
  EXPECT_FALSE(health->version.empty());
}

TEST_F(Agent, runs_a_command_with_arguments_and_both_streams) {
  const Ran ran = sh("echo out; echo err >&2; exit 3");
  EXPECT_EQ(ran.error, "");
  EXPECT_EQ(ran.out, "out\n");
  EXPECT_EQ(ran.err, "err\n");
  EXPECT_EQ(ran.exit.code, 3);
  EXPECT_EQ(ran.exit.signal, 0);
}

TEST_F(Agent, arguments_are_passed_as_they_are_without_a_shell) {
  const Ran ran = agent.run(
      {.command = "printf", .args = {"[%s]", "a b", "", "$HOME", "*"}, .cwd = "/", .user = me()});
  EXPECT_EQ(ran.out, "[a b][][$HOME][*]");
}

TEST_F(Agent, a_signal_is_told_with_its_number_and_as_128_plus_n) {
  const Ran ran = sh("kill -INT $$");
  EXPECT_EQ(ran.exit.signal, SIGINT);
  EXPECT_EQ(ran.exit.code, 130);
  EXPECT_FALSE(ran.exit.timed_out);
}

TEST_F(Agent, the_environment_is_the_given_one_and_the_account) {
  auto request = shell("env");
  request.env = {{"PATH", "/usr/bin:/bin"}, {"X", "1"}, {"USER", "kept"}};
  const Ran ran = agent.run(request);
  EXPECT_NE(ran.out.find("X=1\n"), std::string::npos);
  EXPECT_NE(ran.out.find("USER=kept\n"), std::string::npos);
  EXPECT_NE(ran.out.find("LOGNAME=" + me() + "\n"), std::string::npos);
  EXPECT_NE(ran.out.find("HOME="), std::string::npos);
  EXPECT_EQ(ran.out.find("SALLYPORT"), std::string::npos);
}

TEST_F(Agent, a_relative_cwd_starts_at_home_and_an_absolute_one_is_taken_as_it_is) {
  auto request = shell("pwd");
  request.cwd = "/usr/bin/..";
  EXPECT_EQ(agent.run(request).out, "/usr\n");
  request.cwd = "";
  const std::string home = std::filesystem::canonical(::getpwuid(::geteuid())->pw_dir).string();
  EXPECT_EQ(agent.run(request).out, home + "\n");
  request.cwd = "..";
  EXPECT_EQ(agent.run(request).out, std::filesystem::path(home).parent_path().string() + "\n");
}

TEST_F(Agent, refusals_say_what_is_wrong) {
  auto request = shell("true");
  request.command = "no-such-program-here";
  Ran ran = agent.run(request);
  EXPECT_EQ(ran.code, Code::not_found);
  EXPECT_EQ(ran.error, "no-such-program-here: command not found");

  request = shell("true");
  request.cwd = "/no/such/dir";
  ran = agent.run(request);
  EXPECT_EQ(ran.code, Code::invalid);
  EXPECT_EQ(ran.error, "/no/such/dir: No such file or directory");

  request = shell("true");
  request.user = "no-such-user-here";
  ran = agent.run(request);
  EXPECT_EQ(ran.code, Code::invalid);
  EXPECT_EQ(ran.error, "no such user: no-such-user-here");

  request = shell("true");
  request.command = "/etc/passwd";
  ran = agent.run(request);
  EXPECT_EQ(ran.code, Code::invalid);
  EXPECT_EQ(ran.error, "/etc/passwd: Permission denied");
}

TEST_F(Agent, a_command_without_slash_is_looked_up_in_the_given_path) {
  auto request = shell("true");
  request.command = "true";
  request.args = {};
  request.env = {{"PATH", "/nowhere"}};
  EXPECT_EQ(agent.run(request).code, Code::not_found);
  request.env = {{"PATH", "/nowhere:/usr/bin"}};
  EXPECT_EQ(agent.run(request).exit.code, 0);
}

//
TEST_F(Agent, R_102_a_background_child_holds_back_neither_the_exit_code_nor_the_end_and_lives_on) {
  const Ran ran = sh("(sleep 60; echo late) & echo $!; echo ok");
  EXPECT_EQ(ran.error, "");
  EXPECT_EQ(ran.exit.code, 0);
  const auto line = ran.out.find('\n');
  EXPECT_EQ(ran.out.substr(line + 1), "ok\n");
  EXPECT_EQ(::kill(std::stoi(ran.out), 0), 0);
  // It can still be reached by the pid of the command that started it.
  EXPECT_TRUE(agent.await(agent.client->kill(ran.pid, SIGKILL)));
  EXPECT_TRUE(nothing_left());
}

//
TEST_F(Agent, R_102_a_background_child_that_writes_on_is_not_broken_by_the_closed_stream) {
  const std::string mark = agent.socket_path() + ".mark";
  const Ran ran = sh(
      "( for i in 1 2 3 4 5 6 7 8; do head -c 100000 /dev/zero || exit 1; sleep 0.05; done; : >" +
      mark + " ) & exit 4");
  EXPECT_EQ(ran.exit.code, 4);
  EXPECT_TRUE(eventually([&] { return std::filesystem::exists(mark); }));
  std::filesystem::remove(mark);
}

// a background writer that never pauses cannot keep the stream open.
TEST_F(Agent, R_102_an_endless_background_writer_does_not_delay_the_end) {
  const Ran ran = sh("yes & exit 0");
  EXPECT_EQ(ran.error, "");
  EXPECT_EQ(ran.exit.code, 0);
  EXPECT_TRUE(agent.await(agent.client->kill(ran.pid, SIGKILL)));
}

//
TEST_F(Agent, R_103_stdin_is_at_its_end) {
  EXPECT_EQ(sh("cat; echo done").out, "done\n");
  EXPECT_EQ(sh("readlink /proc/self/fd/0").out, "/dev/null\n");
}

//
TEST_F(Agent, R_104_output_is_byte_exact_and_comes_before_the_exit) {
  std::string numbers;
  for (int i = 1; i <= 100'000; ++i) numbers += std::to_string(i) + "\n";
  for (int round = 0; round < 20; ++round) {
    const Ran ran = sh("seq 1 100000");
    ASSERT_EQ(ran.error, "");
    ASSERT_EQ(ran.out, numbers);
    const Ran odd = sh("printf '%66890s' x; exit 7");
    ASSERT_EQ(odd.out.size(), 66890U);
    ASSERT_EQ(odd.exit.code, 7);
  }
}

//
TEST_F(Agent, R_104_streams_mixed_and_large_arrive_whole) {
  const Ran ran =
      sh("head -c 4194304 /dev/zero | tr '\\0' a; head -c 1048576 /dev/zero | tr '\\0' b >&2; "
         "printf z");
  EXPECT_EQ(ran.out, std::string(4194304, 'a') + "z");
  EXPECT_EQ(ran.err, std::string(1048576, 'b'));
}

// a reader that waits holds the writer, loses nothing, and does not hold up another
// command.
TEST_F(Agent, R_104_a_slow_reader_gets_everything_and_holds_up_nobody_else) {
  auto slow = start(shell("head -c 20000000 /dev/zero; exit 5"));
  const auto held = start(shell("yes"));  // never read at all
  for (int i = 0; i < 20; ++i) EXPECT_EQ(sh("echo quick").out, "quick\n");
  const Ran ran = agent.await(collect(*slow));
  EXPECT_EQ(ran.out.size(), 20'000'000U);
  EXPECT_EQ(ran.exit.code, 5);
}

//
TEST_F(Agent, R_105_much_on_stderr_before_anything_on_stdout) {
  const Ran ran = sh("head -c 1048576 /dev/zero >&2; echo out");
  EXPECT_EQ(ran.err.size(), 1048576U);
  EXPECT_EQ(ran.out, "out\n");
}

//
TEST_F(Agent, R_105_a_process_whose_stream_was_given_up_never_blocks) {
  const std::string mark = agent.socket_path() + ".mark";
  start(shell("head -c 5000000 /dev/zero; head -c 5000000 /dev/zero >&2; : >" + mark)).reset();
  EXPECT_TRUE(agent.await(agent.client->health()));  // lets the reset out
  EXPECT_TRUE(eventually([&] { return std::filesystem::exists(mark); }));
  std::filesystem::remove(mark);
}

//
TEST_F(Agent, R_105_a_lost_connection_kills_nothing_and_blocks_nothing) {
  const std::string mark = agent.socket_path() + ".mark";
  auto command = start(shell("echo ready; head -c 5000000 /dev/zero; : >" + mark));
  first_line(*command);
  agent.client.reset();
  command.reset();
  EXPECT_TRUE(eventually([&] { return std::filesystem::exists(mark); }));
  std::filesystem::remove(mark);
  agent.connect();
  EXPECT_EQ(sh("echo again").out, "again\n");
}

//
TEST_F(Agent, R_106_all_byte_values_pass_unchanged) {
  std::string all;
  for (int i = 0; i < 256; ++i) all += char(i);
  const std::string file = agent.socket_path() + ".bytes";
  std::ofstream(file, std::ios::binary) << all << "\xe2\x94";  // ends inside a character
  EXPECT_EQ(sh("cat " + file).out, all + "\xe2\x94");
  std::filesystem::remove(file);
}

struct Tree {
  const char* name;
  const char* script;
};
class TimedOut : public Agent, public ::testing::WithParamInterface<Tree> {};

//
TEST_P(TimedOut, R_107_the_whole_tree_is_gone) {
  auto request = shell(GetParam().script);
  request.timeout_ms = 150;
  const Ran ran = agent.run(request);
  EXPECT_EQ(ran.error, "");
  EXPECT_TRUE(ran.exit.timed_out);
  EXPECT_EQ(ran.exit.code, 137);
  EXPECT_TRUE(nothing_left());
}

INSTANTIATE_TEST_SUITE_P(
    Trees, TimedOut,
    ::testing::Values(Tree{"child", "sleep 300 & wait"},
                      Tree{"ignores_term", "trap '' TERM INT HUP; sleep 300 & wait; sleep 300"},
                      Tree{"session", "setsid sleep 300 & setsid setsid sleep 301 & wait"},
                      Tree{"double_fork", "(setsid sh -c 'sleep 300 & sleep 301 &' &) ; sleep 302"},
                      Tree{"pipeline", "sleep 300 | sleep 301 | cat"},
                      Tree{"stopped", "kill -STOP $$"},
                      Tree{"forking", "while :; do sleep 300 & sleep 0.01; done"}),
    [](const auto& info) { return info.param.name; });

// the parent is gone long before, its grandchild in another session is still known.
TEST_F(Agent, R_107_kill_reaches_double_forked_daemons) {
  auto command = start(
      shell("setsid sh -c 'setsid sleep 300 >/dev/null 2>&1 & setsid sleep 301 >/dev/null 2>&1 &'; "
            "echo ready; sleep 302"));
  first_line(*command);
  EXPECT_GE(guest::descendants(agent.pid()).size(), 3U);
  EXPECT_TRUE(agent.await(agent.client->kill(command->pid(), SIGKILL)));
  EXPECT_EQ(agent.await(collect(*command)).exit.code, 137);
  EXPECT_TRUE(nothing_left());
}

TEST_F(Agent, a_signal_other_than_kill_is_delivered_and_can_be_handled) {
  auto command =
      start(shell("trap 'echo got; exit 9' TERM; echo ready; while :; do sleep 0.05; done"));
  first_line(*command);
  EXPECT_TRUE(agent.await(agent.client->kill(command->pid(), SIGTERM)));
  const Ran ran = agent.await(collect(*command));
  EXPECT_EQ(ran.out, "got\n");
  EXPECT_EQ(ran.exit.code, 9);
}

TEST_F(Agent, killing_what_is_gone_is_not_found) {
  const Ran ran = sh("true");
  EXPECT_TRUE(nothing_left());
  const auto killed = agent.await(agent.client->kill(ran.pid, SIGTERM));
  ASSERT_FALSE(killed);
  EXPECT_EQ(killed.error().code, Code::not_found);
}

// a fork bomb of bounded size against the stop-then-kill rounds.
TEST_F(Agent, R_107_a_fork_bomb_is_ended) {
  auto request = shell(
      "ulimit -u 100000; i=0; f() { while [ $i -lt 9 ]; do i=$((i+1)); f & done; sleep 300; }; f");
  request.timeout_ms = 300;
  EXPECT_EQ(agent.run(request).exit.code, 137);
  EXPECT_TRUE(nothing_left());
}

//
TEST_F(Agent, R_108_orphans_are_reaped_and_the_next_command_works) {
  const Ran ran = sh("i=0; while [ $i -lt 2000 ]; do (true & ) ; i=$((i+1)); done; echo done");
  EXPECT_EQ(ran.out, "done\n");
  EXPECT_TRUE(eventually([&] {
    const auto zombies = sh("ps -o stat= --ppid " + std::to_string(agent.pid()) + " | grep -c Z");
    return zombies.out == "0\n";
  }));
}

// SB-070 in part: another account's identity, groups and the right to reopen its own streams.
TEST_F(Agent, SB_070_a_command_runs_as_its_account_only) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can become somebody else";
  auto request =
      shell("id -u; id -g; id -G; echo reopened >/dev/stderr; cat /proc/self/status | grep CapEff");
  request.user = "nobody";
  const Ran ran = agent.run(request);
  const passwd* nobody = ::getpwnam("nobody");
  const std::string uid = std::to_string(nobody->pw_uid);
  const std::string gid = std::to_string(nobody->pw_gid);
  EXPECT_EQ(ran.out, uid + "\n" + gid + "\n" + gid + "\nCapEff:\t0000000000000000\n");
  EXPECT_EQ(ran.err, "reopened\n");
}

// spec/api.md 1.6: as by sudo, with the environment kept.
TEST_F(Agent, SB_008_root_has_the_variables_that_sudo_sets) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root";
  auto request = shell("echo $USER $SUDO_USER $HOME $PATH $X");
  request.user = "root";
  request.env = {{"PATH", "/vercel/bin:/usr/bin:/bin"}, {"X", "kept"}};
  EXPECT_EQ(agent.run(request).out, "root ubuntu /root /vercel/bin:/usr/bin:/bin kept\n");
}

TEST_F(Agent, no_descriptor_and_no_blocked_signal_of_the_agent_is_inherited) {
  const Ran ran =
      agent.run({.command = "cat", .args = {"/proc/self/status"}, .cwd = "/", .user = me()});
  EXPECT_NE(ran.out.find("SigBlk:\t0000000000000000\n"), std::string::npos) << ran.out;
  EXPECT_NE(ran.out.find("SigIgn:\t0000000000000000\n"), std::string::npos) << ran.out;
  EXPECT_EQ(agent.run({.command = "ls", .args = {"/proc/self/fd"}, .cwd = "/", .user = me()}).out,
            "0\n1\n2\n3\n");
}

TEST_F(Agent, many_commands_at_once) {
  std::vector<std::unique_ptr<driver::AgentCommand>> all;
  for (int i = 0; i < 100; ++i) all.push_back(start(shell("sleep 0.1; echo " + std::to_string(i))));
  for (std::size_t i = 0; i < all.size(); ++i) {
    EXPECT_EQ(agent.await(collect(*all[i])).out, std::to_string(i) + "\n");
  }
}

TEST_F(Agent, processes_are_bounded_and_the_refusal_is_clear) {
  std::vector<std::unique_ptr<driver::AgentCommand>> all;
  std::string refusal;
  while (refusal.empty() && all.size() < 2000) {
    auto command = agent.await(
        agent.client->start({.command = "sleep", .args = {"300"}, .cwd = "/", .user = me()}));
    if (command)
      all.push_back(std::move(*command));
    else
      refusal = command.error().message;
  }
  EXPECT_EQ(refusal, "too many processes");
  EXPECT_EQ(all.size(), 512U);
}

TEST_F(Agent, shutdown_ends_commands_politely_then_surely_and_then_the_agent) {
  const std::string mark = agent.socket_path() + ".mark";
  auto polite =
      start(shell("trap ': >" + mark + "; exit 0' TERM; echo ready; while :; do sleep 0.02; done"));
  auto stubborn = start(shell("trap '' TERM; echo ready; while :; do sleep 0.02; done"));
  first_line(*polite);
  first_line(*stubborn);
  const pid_t agent_pid = agent.pid();
  EXPECT_TRUE(agent.await(agent.client->shutdown(500ms)));
  EXPECT_EQ(agent.wait_for_end(), 0);
  EXPECT_TRUE(std::filesystem::exists(mark));
  EXPECT_TRUE(guest::descendants(agent_pid).empty());
  std::filesystem::remove(mark);
}

TEST_F(Agent, shutdown_of_an_idle_agent_is_immediate) {
  EXPECT_TRUE(agent.await(agent.client->shutdown(30s)));
  EXPECT_EQ(agent.wait_for_end(), 0);
}

}  // namespace
}  // namespace sallyport::test
