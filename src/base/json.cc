// SPDX-License-Identifier: Apache-2.0
#include "base/json.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json/basic_parser_impl.hpp>
#include <boost/json/serialize.hpp>
#include <boost/json/value_stack.hpp>
#include <cctype>
#include <cmath>
#include <set>
#include <vector>

namespace sallyport {
namespace {

// Boost's own DOM handler with a key set per open object. Names follow the SAX interface of
// basic_parser.
struct Handler {
  static constexpr std::size_t max_object_size = std::size_t(-1);
  static constexpr std::size_t max_array_size = std::size_t(-1);
  static constexpr std::size_t max_key_size = std::size_t(-1);
  static constexpr std::size_t max_string_size = std::size_t(-1);
  using Error = boost::system::error_code;

  json::value_stack stack;
  std::vector<std::set<std::string, std::less<>>> keys;
  std::string key;
  std::string duplicate;

  bool on_document_begin(Error&) { return true; }
  bool on_document_end(Error&) { return true; }
  bool on_object_begin(Error&) {
    keys.emplace_back();
    return true;
  }
  bool on_object_end(std::size_t count, Error&) {
    keys.pop_back();
    stack.push_object(count);
    return true;
  }
  bool on_array_begin(Error&) { return true; }
  bool on_array_end(std::size_t count, Error&) {
    stack.push_array(count);
    return true;
  }
  bool on_key_part(boost::core::string_view part, std::size_t, Error&) {
    key.append(part.data(), part.size());
    stack.push_chars(part);
    return true;
  }
  bool on_key(boost::core::string_view part, std::size_t, Error& error) {
    key.append(part.data(), part.size());
    stack.push_key(part);
    if (!keys.back().insert(key).second) {
      duplicate = key;
      error = json::error::extra_data;
      return false;
    }
    key.clear();
    return true;
  }
  bool on_string_part(boost::core::string_view part, std::size_t, Error&) {
    stack.push_chars(part);
    return true;
  }
  bool on_string(boost::core::string_view part, std::size_t, Error&) {
    stack.push_string(part);
    return true;
  }
  bool on_number_part(boost::core::string_view, Error&) { return true; }
  bool on_int64(std::int64_t value, boost::core::string_view, Error&) {
    stack.push_int64(value);
    return true;
  }
  bool on_uint64(std::uint64_t value, boost::core::string_view, Error&) {
    stack.push_uint64(value);
    return true;
  }
  bool on_double(double value, boost::core::string_view, Error& error) {
    // Infinity is not JSON: written again it would not be read again.
    if (!std::isfinite(value)) {
      error = json::error::exponent_overflow;
      return false;
    }
    stack.push_double(value);
    return true;
  }
  bool on_bool(bool value, Error&) {
    stack.push_bool(value);
    return true;
  }
  bool on_null(Error&) {
    stack.push_null();
    return true;
  }
  bool on_comment_part(boost::core::string_view, Error&) { return true; }
  bool on_comment(boost::core::string_view, Error&) { return true; }
};

std::string place(std::string_view text, std::size_t offset) {
  const std::string_view before = text.substr(0, std::min(offset, text.size()));
  const auto line = 1 + std::ranges::count(before, '\n');
  const auto start = before.rfind('\n') == std::string_view::npos ? 0 : before.rfind('\n') + 1;
  return fmt::format("line {}, column {}", line, before.size() - start + 1);
}

bool is_plain_key(std::string_view key) {
  return !key.empty() &&
         std::ranges::all_of(key, [](unsigned char c) { return std::isalnum(c) || c == '_'; });
}

}  // namespace

Result<json::value> parse_json(std::string_view text, const JsonLimits& limits) {
  if (text.size() > limits.max_bytes) {
    return fail(Code::invalid, fmt::format("{} bytes of JSON, at most {} are allowed", text.size(),
                                           limits.max_bytes));
  }
  json::parse_options options;
  options.max_depth = limits.max_depth;
  options.allow_comments = limits.comments;
  json::basic_parser<Handler> parser(options);
  parser.handler().stack.reset();
  boost::system::error_code error;
  const std::size_t used = parser.write_some(false, text.data(), text.size(), error);
  if (!parser.handler().duplicate.empty() ||
      (error == json::error::extra_data && used < text.size())) {
    if (!parser.handler().keys.empty()) {
      return fail(Code::invalid, fmt::format("{}: duplicate key '{}'", place(text, used),
                                             parser.handler().duplicate));
    }
  }
  if (error == json::error::too_deep) {
    return fail(Code::invalid, fmt::format("JSON nested deeper than {} levels", limits.max_depth));
  }
  if (error)
    return fail(Code::invalid, fmt::format("{}: not JSON: {}", place(text, used), error.message()));
  if (!std::ranges::all_of(text.substr(used), [](unsigned char c) { return std::isspace(c); })) {
    return fail(Code::invalid,
                fmt::format("{}: text after the end of the JSON value", place(text, used)));
  }
  return parser.handler().stack.release();
}

std::string json_path_key(std::string_view parent, std::string_view key) {
  if (is_plain_key(key)) return fmt::format("{}.{}", parent, key);
  return fmt::format("{}[{}]", parent, serialize_ascii(json::string(key)));
}

std::string json_path_index(std::string_view parent, std::size_t index) {
  return fmt::format("{}[{}]", parent, index);
}

std::string serialize_ascii(const json::value& value) {
  std::string raw = json::serialize(value);
  const auto ascii = [](char c) { return static_cast<unsigned char>(c) < 0x80; };
  if (std::ranges::all_of(raw, ascii)) return raw;
  std::string out;
  out.reserve(raw.size());
  for (std::size_t i = 0; i < raw.size();) {
    const auto lead = static_cast<unsigned char>(raw[i]);
    if (lead < 0x80) {
      // DEL and the separators VT, FF, FS.. are escaped by the serializer already, except DEL,
      // which is harmless.
      out.push_back(raw[i++]);
      continue;
    }
    const std::size_t length = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
    std::uint32_t code = lead & (0xffU >> (length + 1));
    for (std::size_t k = 1; k < length && i + k < raw.size(); ++k) {
      code = (code << 6) | (static_cast<unsigned char>(raw[i + k]) & 0x3fU);
    }
    i += length;
    if (code >= 0x10000) {
      code -= 0x10000;
      out += fmt::format("\\u{:04x}\\u{:04x}", 0xd800 + (code >> 10), 0xdc00 + (code & 0x3ff));
    } else {
      out += fmt::format("\\u{:04x}", code);
    }
  }
  return out;
}

}  // namespace sallyport
