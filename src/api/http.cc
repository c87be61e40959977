// SPDX-License-Identifier: Apache-2.0
#include "api/http.h"

#include "api/utf8.h"
#include "base/check.h"

namespace sallyport::api {

const std::string& Call::param(const std::string& name) const {
  const auto found = params.find(name);
  CHECK(found != params.end());  // the route's pattern names it
  return found->second;
}

std::optional<std::string> Call::query_value(std::string_view key) const {
  for (const auto& [name, value] : query) {
    if (name == key && !value.empty()) return value;
  }
  return std::nullopt;
}

Reply error_reply(unsigned status, std::string_view code, std::string_view message) {
  Reply reply;
  reply.status = status;
  reply.body = json::object{{"error", {{"code", code}, {"message", message}}}};
  return reply;
}

Reply error_reply(const Error& error) {
  switch (error.code) {
    case Code::invalid:
      return error_reply(400, "bad_request", error.message);
    case Code::denied:
      return error_reply(403, "forbidden", error.message);
    case Code::not_found:
      return error_reply(404, "not_found", error.message);
    case Code::conflict:
      return error_reply(409, "conflict", error.message);
    case Code::timed_out:
      return error_reply(504, "timed_out", error.message);
    case Code::unavailable:
      return error_reply(503, "unavailable", error.message);
    case Code::internal:
      break;
  }
  return error_reply(500, "internal_error", error.message);
}

Reply json_reply(json::value body) {
  Reply reply;
  reply.body = std::move(body);
  return reply;
}

std::optional<std::string> percent_decode(std::string_view text, bool plus_is_space) {
  const auto digit = [](char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return -1;
  };
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '+' && plus_is_space) {
      out += ' ';
    } else if (text[i] == '%') {
      if (i + 2 >= text.size()) return std::nullopt;
      const int high = digit(text[i + 1]);
      const int low = digit(text[i + 2]);
      if (high < 0 || low < 0 || high + low == 0) return std::nullopt;
      out += static_cast<char>(high * 16 + low);
      i += 2;
    } else {
      out += text[i];
    }
  }
  // Names and values come back in answers, which are text.
  Utf8Stream stream;
  std::string valid = stream.push(as_bytes(out));
  valid += stream.finish();
  if (valid != out) return std::nullopt;
  return out;
}

}  // namespace sallyport::api
