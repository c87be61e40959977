// SPDX-License-Identifier: Apache-2.0
#include "driver/program.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include "base/fd.h"

namespace sallyport::driver {
namespace {

using namespace std::chrono_literals;

struct Heard {
  std::vector<std::string> lines;
  std::function<void(std::string_view)> ear() {
    return [this](std::string_view line) { lines.emplace_back(line); };
  }
};

TEST(Program, output_comes_line_by_line_from_both_streams) {
  Heard heard;
  EXPECT_TRUE(run_program(
      {.argv = {"sh", "-c", "echo one; echo two >&2; printf three"}, .line = heard.ear()}));
  EXPECT_EQ(heard.lines, (std::vector<std::string>{"one", "two", "three"}));
}

TEST(Program, a_failure_says_status_and_last_words) {
  Heard heard;
  const auto done = run_program({.argv = {"sh", "-c", "echo broken; exit 3"}, .line = heard.ear()});
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().message, "sh failed with status 3: broken");
}

TEST(Program, one_that_is_not_there_says_so) {
  const auto done = run_program({.argv = {"no-such-program-here"}});
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().message, "no-such-program-here: not installed");
}

TEST(Program, too_long_is_killed) {
  const auto done = run_program({.argv = {"sleep", "600"}, .limit = 50ms});
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code, Code::timed_out);
}

TEST(Program, a_child_that_keeps_the_output_open_is_not_waited_for) {
  Heard heard;
  EXPECT_TRUE(run_program(
      {.argv = {"sh", "-c", "sleep 5 & echo done"}, .limit = 60s, .line = heard.ear()}));
  EXPECT_EQ(heard.lines, std::vector<std::string>{"done"});
}

TEST(Program, no_descriptor_is_inherited_but_the_passed_one) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);  // without close-on-exec
  const Fd read_end(ends[0]);
  Fd write_end(ends[1]);
  Heard heard;
  EXPECT_TRUE(run_program({.argv = {"sh", "-c", "ls /proc/$$/fd; echo passed >&3"},
                           .line = heard.ear(),
                           .pass_fd = write_end.get()}));
  EXPECT_EQ(heard.lines, (std::vector<std::string>{"0", "1", "2", "3"}));
  write_end.reset();
  char text[16] = {};
  EXPECT_EQ(::read(read_end.get(), text, sizeof text), 7);
  EXPECT_STREQ(text, "passed\n");
}

}  // namespace
}  // namespace sallyport::driver
