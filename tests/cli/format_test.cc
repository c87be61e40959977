// SPDX-License-Identifier: Apache-2.0
#include "cli/format.h"

#include <gtest/gtest.h>

#include <sstream>

#include "cli/client.h"

namespace sallyport::cli {
namespace {

TEST(Format, durations_are_read_strictly) {
  EXPECT_EQ(parse_duration("500ms"), 500);
  EXPECT_EQ(parse_duration("90s"), 90'000);
  EXPECT_EQ(parse_duration("5m"), 300'000);
  EXPECT_EQ(parse_duration("1h30m"), 5'400'000);
  EXPECT_EQ(parse_duration("2d"), 172'800'000);
  EXPECT_EQ(parse_duration("0s"), 0);
  for (const char* bad : {"", "5", "m", "-5m", "5 m", "5x", "5m3", "99999999999999999999s",
                          "9999999d", "1.5h", "+5m"}) {
    EXPECT_FALSE(parse_duration(bad)) << bad;
  }
}

TEST(Format, numbers_read_like_speech) {
  EXPECT_EQ(format_duration(40), "40ms");
  EXPECT_EQ(format_duration(12'300), "12.3s");
  EXPECT_EQ(format_duration(300'000), "5m");
  EXPECT_EQ(format_duration(61'000), "1m 1s");
  EXPECT_EQ(format_duration(5'400'000), "1h 30m");
  EXPECT_EQ(format_size(999), "999 B");
  EXPECT_EQ(format_size(1500), "1.5 kB");
  EXPECT_EQ(format_size(999'999), "1.0 MB");
  EXPECT_EQ(format_size(2'000'000'000'000), "2.0 TB");
  EXPECT_EQ(format_age(0, 1'000), "1 second ago");
  EXPECT_EQ(format_age(0, 7'200'000), "2 hours ago");
  EXPECT_EQ(format_age(5'000, 0), "0 seconds ago");
}

TEST(Format, no_text_can_control_the_terminal) {
  EXPECT_EQ(printable("a\x1b[2J\r\n\x7f"), "a?[2J???");
  EXPECT_EQ(printable("\xc2\x9b"
                      "31m\xc3\xa9"),
            "?31m\xc3\xa9");
}

TEST(Format, columns_line_up_without_trailing_blanks) {
  std::ostringstream out;
  print_table(out, {{"A", "LONG", "C"}, {"value", "x", ""}});
  EXPECT_EQ(out.str(), "A      LONG  C\nvalue  x\n");
}

TEST(ApiAddress, is_a_socket_or_plain_http) {
  EXPECT_EQ(ApiAddress::parse("unix:/run/x.sock")->unix_path, "/run/x.sock");
  EXPECT_EQ(ApiAddress::parse("unix:///run/x.sock")->unix_path, "/run/x.sock");
  EXPECT_EQ(ApiAddress::parse("http://localhost:8080")->port, "8080");
  EXPECT_EQ(ApiAddress::parse("http://localhost/")->port, "80");
  EXPECT_EQ(ApiAddress::parse("http://[::1]:8080")->host, "::1");
  EXPECT_EQ(ApiAddress::parse("http://[::1]")->host, "::1");
  for (const std::string& bad :
       {std::string("https://x"), std::string("x"), std::string("unix:"), std::string("http://"),
        std::string("http://a/b"), std::string("http://a:x"), std::string("http://a:"),
        "unix:/" + std::string(120, 'x')}) {
    EXPECT_FALSE(ApiAddress::parse(bad)) << bad;
  }
}

}  // namespace
}  // namespace sallyport::cli
