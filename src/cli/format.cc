// SPDX-License-Identifier: Apache-2.0
#include "cli/format.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>

namespace sallyport::cli {
namespace {

struct Unit {
  std::string_view name;
  std::int64_t milliseconds;
};
constexpr std::array kUnits = {Unit{"ms", 1}, Unit{"s", 1000}, Unit{"m", 60'000},
                               Unit{"h", 3'600'000}, Unit{"d", 86'400'000}};
constexpr std::int64_t kMaxDuration = 365LL * 86'400'000;

void write_json(std::ostream& out, const json::value& value, std::size_t depth) {
  const std::string inner((depth + 1) * 2, ' ');
  const std::string outer(depth * 2, ' ');
  if (value.is_object() && !value.get_object().empty()) {
    out << "{\n";
    bool first = true;
    for (const auto& [key, content] : value.get_object()) {
      out << (first ? "" : ",\n") << inner << serialize_ascii(json::string(key)) << ": ";
      write_json(out, content, depth + 1);
      first = false;
    }
    out << "\n" << outer << "}";
  } else if (value.is_array() && !value.get_array().empty()) {
    const auto& array = value.get_array();
    // Lists of plain values stay on one line while they are short.
    const bool plain =
        std::ranges::none_of(array, [](const auto& each) { return each.is_structured(); });
    const std::string line = serialize_ascii(value);
    if (plain && line.size() <= 80) {
      out << line;
      return;
    }
    out << "[\n";
    for (std::size_t i = 0; i < array.size(); ++i) {
      out << (i == 0 ? "" : ",\n") << inner;
      write_json(out, array[i], depth + 1);
    }
    out << "\n" << outer << "]";
  } else {
    out << serialize_ascii(value);
  }
}

}  // namespace

Result<std::int64_t> parse_duration(std::string_view text) {
  const std::string whole(text);
  std::int64_t total = 0;
  const auto bad = [&] {
    return fail(Code::invalid, fmt::format("'{}' is not a duration like 90s, 5m or 1h30m", whole));
  };
  if (text.empty()) return bad();
  while (!text.empty()) {
    std::int64_t number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc{} || number < 0 || text.front() == '-') return bad();
    text.remove_prefix(static_cast<std::size_t>(end - text.data()));
    const std::string_view name = text.substr(0, text.find_first_of("0123456789"));
    const auto unit = std::ranges::find(kUnits, name, &Unit::name);
    if (unit == kUnits.end() || number > kMaxDuration / unit->milliseconds) return bad();
    total += number * unit->milliseconds;
    if (total > kMaxDuration) return bad();
    text.remove_prefix(name.size());
  }
  return total;
}

std::string format_duration(std::int64_t milliseconds) {
  if (milliseconds < 1000) return fmt::format("{}ms", milliseconds);
  const std::int64_t seconds = milliseconds / 1000;
  if (seconds < 60)
    return milliseconds % 1000 == 0
               ? fmt::format("{}s", seconds)
               : fmt::format("{:.1f}s", static_cast<double>(milliseconds) / 1000);
  if (seconds < 3600)
    return seconds % 60 == 0 ? fmt::format("{}m", seconds / 60)
                             : fmt::format("{}m {}s", seconds / 60, seconds % 60);
  const std::int64_t minutes = seconds / 60;
  return minutes % 60 == 0 ? fmt::format("{}h", minutes / 60)
                           : fmt::format("{}h {}m", minutes / 60, minutes % 60);
}

std::string format_size(std::uint64_t bytes) {
  if (bytes < 1000) return fmt::format("{} B", bytes);
  auto value = static_cast<double>(bytes);
  for (const char* unit : {"kB", "MB", "GB"}) {
    value /= 1000;
    if (value < 999.95) return fmt::format("{:.1f} {}", value, unit);
  }
  return fmt::format("{:.1f} TB", value / 1000);
}

std::string format_age(std::int64_t since_ms, std::int64_t now_ms) {
  const std::int64_t seconds = std::max<std::int64_t>(0, now_ms - since_ms) / 1000;
  const auto say = [](std::int64_t count, const char* unit) {
    return fmt::format("{} {}{} ago", count, unit, count == 1 ? "" : "s");
  };
  if (seconds < 60) return say(seconds, "second");
  if (seconds < 3600) return say(seconds / 60, "minute");
  if (seconds < 86'400) return say(seconds / 3600, "hour");
  return say(seconds / 86'400, "day");
}

std::string printable(std::string_view text) {
  std::string out(text);
  std::ranges::replace_if(out, [](unsigned char c) { return c < 0x20 || c == 0x7f; }, '?');
  // C1 controls (U+0080 to U+009F) move cursors too.
  for (std::size_t i = 0; i + 1 < out.size(); ++i) {
    if (static_cast<unsigned char>(out[i]) == 0xc2 && static_cast<unsigned char>(out[i + 1]) < 0xa0)
      out.replace(i, 2, "?");
  }
  return out;
}

void print_table(std::ostream& out, const std::vector<std::vector<std::string>>& rows) {
  std::vector<std::size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  for (const auto& row : rows) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) line += fmt::format("{:<{}}  ", row[i], widths[i]);
    out << line.substr(0, line.find_last_not_of(' ') + 1) << "\n";
  }
}

void print_json(std::ostream& out, const json::value& value) {
  write_json(out, value, 0);
  out << "\n";
}

const json::value* member(const json::value& value, std::string_view key) {
  return value.is_object() ? value.get_object().if_contains(key) : nullptr;
}

std::string text_member(const json::value& value, std::string_view key,
                        std::string_view otherwise) {
  const auto* found = member(value, key);
  return found != nullptr && found->is_string() ? std::string(found->get_string())
                                                : std::string(otherwise);
}

std::int64_t number_member(const json::value& value, std::string_view key, std::int64_t otherwise) {
  const auto* found = member(value, key);
  if (found == nullptr) return otherwise;
  if (found->is_int64()) return found->get_int64();
  if (found->is_uint64()) return otherwise;  // nothing of ours is that big
  if (found->is_double() && found->get_double() > -9e15 && found->get_double() < 9e15) {
    return static_cast<std::int64_t>(found->get_double());
  }
  return otherwise;
}

}  // namespace sallyport::cli
