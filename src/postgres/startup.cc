// SPDX-License-Identifier: Apache-2.0
#include "postgres/startup.h"

#include <algorithm>

namespace sallyport::postgres {
namespace {

constexpr std::uint32_t kCancelCode = 80877102;
constexpr std::uint32_t kSslCode = 80877103;
constexpr std::uint32_t kGssCode = 80877104;
constexpr std::size_t kHeader = 8;

enum class Kind { need_more, ssl, gss, cancel, startup, other };

Kind kind_by_code(std::uint32_t length, std::uint32_t code) {
  if (code == kSslCode) return length == kHeader ? Kind::ssl : Kind::other;
  if (code == kGssCode) return length == kHeader ? Kind::gss : Kind::other;
  // 12 bytes of process and key up to protocol 3.0; 3.2 allows keys of up to 256 bytes.
  if (code == kCancelCode)
    return length >= 16 && length <= kHeader + 4 + 256 ? Kind::cancel : Kind::other;
  if (code >> 16 == 3)
    return length > kHeader && length <= kMaxStartup ? Kind::startup : Kind::other;
  return Kind::other;
}

// Decides on the first byte that cannot belong to Postgres, so that other protocols are known
// early; every code begins with 0x04d2 or 0x0003, every length with 0x0000.
Kind kind_of(Bytes bytes) {
  Reader in(bytes);
  if (const auto length = in.u32()) {
    if (*length < kHeader || *length > kMaxStartup) return Kind::other;
    if (const auto code = in.u32()) return kind_by_code(*length, *code);
    const bool possible = in.empty() || in.rest()[0] == 0x04 || in.rest()[0] == 0x00;
    return possible ? Kind::need_more : Kind::other;
  }
  const Bytes zeros = bytes.first(std::min<std::size_t>(bytes.size(), 2));
  return std::ranges::all_of(zeros, [](std::uint8_t b) { return b == 0; }) ? Kind::need_more
                                                                           : Kind::other;
}

}  // namespace

FirstBytes looks_like_postgres(Bytes first) {
  switch (kind_of(first)) {
    case Kind::need_more:
      return FirstBytes::need_more;
    case Kind::other:
      return FirstBytes::other;
    default:
      return FirstBytes::postgres;
  }
}

Step Negotiation::feed(Bytes unread) {
  switch (kind_of(unread)) {
    case Kind::need_more:
      return {};
    case Kind::ssl:
      return {Action::answer_yes, kHeader, {}};
    case Kind::gss:
      if (gss_asked_) return {Action::refuse, 0, "GSS encryption asked twice"};
      gss_asked_ = true;
      return {Action::answer_no, kHeader, {}};
    case Kind::cancel:
      return {Action::cancel, 0, {}};
    case Kind::startup:
      return {Action::plaintext, 0, {}};
    case Kind::other:
      break;
  }
  return {Action::refuse, 0, "not a Postgres request"};
}

UpstreamAnswer read_upstream_answer(Bytes received) {
  if (received.empty()) return UpstreamAnswer::need_more;
  switch (received[0]) {
    case 'S':
      return received.size() == 1 ? UpstreamAnswer::tls : UpstreamAnswer::unexpected;
    case 'N':
      return UpstreamAnswer::no_tls;
    case 'E':
      return UpstreamAnswer::error;
    default:
      return UpstreamAnswer::unexpected;
  }
}

std::string render_error(std::string_view sqlstate, std::string_view message) {
  constexpr std::size_t kMaxText = 1024;
  const auto field = [](char type, std::string_view text) {
    std::string out(1, type);
    out += text.substr(0, kMaxText);
    std::replace(out.begin() + 1, out.end(), '\0', '?');
    return out + '\0';
  };
  const std::string fields =
      field('S', "FATAL") + field('V', "FATAL") + field('C', sqlstate) + field('M', message) + '\0';
  const std::size_t length = fields.size() + 4;
  std::string out{'E', 0, 0, static_cast<char>(length >> 8), static_cast<char>(length & 0xff)};
  return out + fields;
}

}  // namespace sallyport::postgres
