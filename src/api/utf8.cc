// SPDX-License-Identifier: Apache-2.0
// Replacement follows Unicode 3.9 "maximal subpart" practice, as browsers and Python do it: one
// U+FFFD for each longest beginning of a well-formed sequence.
#include "api/utf8.h"

namespace sallyport::api {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

struct Lead {
  int length = 0;  // 0: cannot begin a character
  std::uint8_t second_low = 0x80, second_high = 0xBF;
};

Lead lead_of(std::uint8_t byte) {
  if (byte < 0x80) return {1};
  if (byte >= 0xC2 && byte <= 0xDF) return {2};
  if (byte == 0xE0) return {3, 0xA0, 0xBF};  // no overlong forms
  if (byte == 0xED) return {3, 0x80, 0x9F};  // no surrogates
  if (byte >= 0xE1 && byte <= 0xEF) return {3};
  if (byte == 0xF0) return {4, 0x90, 0xBF};
  if (byte >= 0xF1 && byte <= 0xF3) return {4};
  if (byte == 0xF4) return {4, 0x80, 0x8F};  // up to U+10FFFF
  return {};
}

}  // namespace

std::string Utf8Stream::push(Bytes bytes) {
  std::string all = std::move(waiting_);
  waiting_.clear();
  all += as_text(bytes);
  std::string out;
  out.reserve(all.size());
  std::size_t at = 0;
  while (at < all.size()) {
    const Lead lead = lead_of(static_cast<std::uint8_t>(all[at]));
    if (lead.length == 0) {
      out += kReplacement;
      ++at;
      continue;
    }
    int have = 1;
    while (have < lead.length && at + static_cast<std::size_t>(have) < all.size()) {
      const auto next = static_cast<std::uint8_t>(all[at + static_cast<std::size_t>(have)]);
      const std::uint8_t low = have == 1 ? lead.second_low : 0x80;
      const std::uint8_t high = have == 1 ? lead.second_high : 0xBF;
      if (next < low || next > high) break;
      ++have;
    }
    const auto length = static_cast<std::size_t>(have);
    if (have == lead.length) {
      out.append(all, at, length);
    } else if (at + length == all.size()) {
      waiting_ = all.substr(at);  // may go on in the next piece
    } else {
      out += kReplacement;
    }
    at += length;
  }
  return out;
}

std::string Utf8Stream::finish() {
  if (waiting_.empty()) return {};
  waiting_.clear();
  return std::string(kReplacement);
}

}  // namespace sallyport::api
