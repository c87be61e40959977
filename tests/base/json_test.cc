// SPDX-License-Identifier: Apache-2.0
#include "base/json.h"

#include <gtest/gtest.h>

#include "base/secret.h"

namespace sallyport {
namespace {

std::string error_of(std::string_view text, const JsonLimits& limits = {}) {
  const auto parsed = parse_json(text, limits);
  return parsed ? "" : parsed.error().message;
}

TEST(Json, duplicate_keys_are_refused_with_their_place) {
  EXPECT_EQ(error_of("{\"a\":1,\n \"a\":2}"), "line 2, column 4: duplicate key 'a'");
  EXPECT_EQ(error_of(R"({"a":{"b":1},"c":{"b":1}})"), "");
}

TEST(Json, an_empty_duplicate_key_is_refused) { EXPECT_NE(error_of(R"({"":1,"":2})"), ""); }

TEST(Json, size_and_depth_are_bounded) {
  EXPECT_NE(error_of("[[[[1]]]]", {.max_depth = 3}), "");
  EXPECT_EQ(error_of("[[[1]]]", {.max_depth = 3}), "");
  EXPECT_NE(error_of("[1,2,3]", {.max_bytes = 6}), "");
}

TEST(Json, trailing_text_and_truncation_are_refused) {
  for (const char* text : {"{} x", "{", "[1", "", "nul", "{\"a\"}", "{} {}"})
    EXPECT_NE(error_of(text), "") << text;
  EXPECT_EQ(error_of(" {} \n"), "");
}

TEST(Json, a_number_beyond_every_double_is_refused) {
  for (const char* text : {"1e999", "-1e999", "2222.5e222222"})
    EXPECT_NE(error_of(text), "") << text;
  EXPECT_EQ(error_of("1e308"), "");
}

TEST(Json, key_order_is_kept) {
  const auto parsed = parse_json(R"({"b":1,"a":2,"c":3})");
  EXPECT_EQ(serialize_ascii(*parsed), R"({"b":1,"a":2,"c":3})");
}

TEST(Json, serialize_ascii_escapes_every_other_code_point) {
  EXPECT_EQ(serialize_ascii(json::value("\u00e9 \u2028 \U0001f600")),
            R"("\u00e9 \u2028 \ud83d\ude00")");
}

TEST(Json, paths_quote_odd_keys) {
  EXPECT_EQ(json_path_key("$.allow", "*.example.com"), R"($.allow["*.example.com"])");
  EXPECT_EQ(json_path_index(json_path_key("$", "allow"), 2), "$.allow[2]");
}

TEST(Secret, moved_from_is_empty) {
  Secret first("short");
  const Secret second = std::move(first);
  EXPECT_TRUE(first.empty());  // NOLINT(bugprone-use-after-move): that is the promise
  EXPECT_EQ(second.reveal(), "short");
}

}  // namespace
}  // namespace sallyport
