// SPDX-License-Identifier: Apache-2.0
// Between what people write and read and what the API has: durations, times, sizes, tables, and
// members of its objects, which are missing or of another type without that being an error.
#pragma once

#include <cstdint>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"

namespace sallyport::cli {

// "5m", "1h30m", "90s", "500ms" to milliseconds.
[[nodiscard]] Result<std::int64_t> parse_duration(std::string_view text);
[[nodiscard]] std::string format_duration(
    std::int64_t milliseconds);                              // "5m", "1h 30m", "12.3s", "40ms"
[[nodiscard]] std::string format_size(std::uint64_t bytes);  // "512 B", "1.5 kB", "2.0 GB"
[[nodiscard]] std::string format_age(std::int64_t since_ms,
                                     std::int64_t now_ms);  // "3 minutes ago"

// Text from anywhere for a terminal: control characters become '?', so that no name can move the
// cursor.
[[nodiscard]] std::string printable(std::string_view text);

// Columns as wide as their widest cell, two spaces between.
void print_table(std::ostream& out, const std::vector<std::vector<std::string>>& rows);
// Indented JSON, one member a line, keys in their order.
void print_json(std::ostream& out, const json::value& value);

[[nodiscard]] const json::value* member(const json::value& value, std::string_view key);
[[nodiscard]] std::string text_member(const json::value& value, std::string_view key,
                                      std::string_view otherwise = "");
[[nodiscard]] std::int64_t number_member(const json::value& value, std::string_view key,
                                         std::int64_t otherwise = 0);

}  // namespace sallyport::cli
