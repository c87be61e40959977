// SPDX-License-Identifier: Apache-2.0
// Reads JSON from anyone: bounded in size and depth, duplicate keys refused (Boost.JSON alone keeps
// the last), key order kept. Errors say where: "line 3, column 7: duplicate key 'allow'".
#pragma once

#include <boost/json/value.hpp>
#include <cstddef>
#include <string>
#include <string_view>

#include "base/result.h"

namespace sallyport {

namespace json = boost::json;

struct JsonLimits {
  std::size_t max_bytes = 1U << 20;
  std::size_t max_depth = 16;
  bool comments = false;  // only for files that a person edits
};

[[nodiscard]] Result<json::value> parse_json(std::string_view text, const JsonLimits& limits = {});

// A JSON path as our error messages write it: $.allow["*.example.com"][0].match
[[nodiscard]] std::string json_path_key(std::string_view parent, std::string_view key);
[[nodiscard]] std::string json_path_index(std::string_view parent, std::size_t index);

// Only ASCII: every other code point as \uXXXX (spec/api.md 1.6, clients split on raw U+2028 and
// the like).
[[nodiscard]] std::string serialize_ascii(const json::value& value);

}  // namespace sallyport
