// SPDX-License-Identifier: Apache-2.0
#include "sandbox/names.h"

#include <sys/random.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>

#include "base/check.h"

namespace sallyport::sandbox {
namespace {

constexpr std::array<std::string_view, 16> kAdjectives = {
    "amber", "brisk", "calm", "clever", "coral",  "dusky",  "eager", "frank",
    "glad",  "hardy", "keen", "lucid",  "mellow", "nimble", "quiet", "swift"};
constexpr std::array<std::string_view, 16> kAnimals = {
    "badger", "crane", "dipper", "egret", "falcon", "gecko",  "heron", "ibis",
    "jackal", "lynx",  "marten", "newt",  "otter",  "plover", "raven", "stoat"};

void fill_random(void* out, std::size_t size) {
  CHECK(::getrandom(out, size, 0) ==
        static_cast<ssize_t>(size));  // up to 256 bytes it is never partial
}

std::string random_text(std::size_t length) {
  static constexpr std::string_view kDigits = "abcdefghijklmnopqrstuvwxyz0123456789";
  std::string text;
  while (text.size() < length) {
    std::array<std::uint8_t, 64> bytes;
    fill_random(bytes.data(), bytes.size());
    for (const std::uint8_t byte : bytes) {
      // 252 is the largest multiple of 36 in a byte: above it the first letters would be likelier.
      if (byte < 252 && text.size() < length) text += kDigits[byte % 36];
    }
  }
  return text;
}

}  // namespace

std::string new_session_id() { return "sbx_" + random_text(20); }
std::string new_command_id() { return "cmd_" + random_text(20); }

std::string new_sandbox_name() {
  std::array<std::uint8_t, 2> bytes;
  fill_random(bytes.data(), bytes.size());
  std::string name(kAdjectives[bytes[0] % kAdjectives.size()]);
  name += '-';
  name += kAnimals[bytes[1] % kAnimals.size()];
  return name + '-' + random_text(6);
}

bool is_sandbox_name(std::string_view name) {
  if (name.empty() || name.size() > 128) return false;
  if (name == "sessions" || name == "snapshots" || name == "drives") return false;
  return std::ranges::all_of(name, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-';
  });
}

bool is_session_id(std::string_view id) {
  if (!id.starts_with("sbx_") || id.size() < 5 || id.size() > 64) return false;
  return std::ranges::all_of(
      id.substr(4), [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); });
}

store::Millis now_ms() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

}  // namespace sallyport::sandbox
