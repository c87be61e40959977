// SPDX-License-Identifier: Apache-2.0
#include "dns/wire.h"

#include <algorithm>

#include "base/host_name.h"

namespace sallyport::dns {
namespace {

constexpr std::size_t kMaxPointer = 0x3fff;
constexpr std::uint8_t kPointerBits = 0xc0;

// Where names stand in the RDATA of the types that may be compressed (RFC 1035 s3.3, RFC 3597 s4).
// Only the types of RFC 1035 are compressed again when written; the others are expanded. Every
// other type is opaque bytes.
struct NameLayout {
  std::uint16_t type;
  std::uint8_t before;   // fixed bytes in front of the first name
  std::uint8_t strings;  // then character strings
  std::uint8_t names;
  bool compress;
};
constexpr NameLayout kLayouts[] = {
    {2, 0, 0, 1, true},     // NS
    {3, 0, 0, 1, true},     // MD
    {4, 0, 0, 1, true},     // MF
    {5, 0, 0, 1, true},     // CNAME
    {6, 0, 0, 2, true},     // SOA
    {7, 0, 0, 1, true},     // MB
    {8, 0, 0, 1, true},     // MG
    {9, 0, 0, 1, true},     // MR
    {12, 0, 0, 1, true},    // PTR
    {14, 0, 0, 2, true},    // MINFO
    {15, 2, 0, 1, true},    // MX
    {17, 0, 0, 2, false},   // RP
    {18, 2, 0, 1, false},   // AFSDB
    {21, 2, 0, 1, false},   // RT
    {24, 18, 0, 1, false},  // SIG
    {26, 2, 0, 2, false},   // PX
    {30, 0, 0, 1, false},   // NXT
    {33, 6, 0, 1, false},   // SRV
    {35, 4, 3, 1, false},   // NAPTR
    {36, 2, 0, 1, false},   // KX
    {39, 0, 0, 1, false},   // DNAME
};

const NameLayout* layout_of(std::uint16_t type) {
  const auto* found = std::ranges::find(kLayouts, type, &NameLayout::type);
  return found == std::end(kLayouts) ? nullptr : found;
}

std::string lower(std::string_view text) {
  std::string out(text);
  std::ranges::transform(out, out.begin(), ascii_lower);
  return out;
}

bool read_section(Bytes message, std::size_t& at, std::size_t count, std::vector<WireRecord>& out) {
  for (; count > 0; --count) {
    auto record = read_record(message, at);
    if (!record) return false;
    out.push_back(std::move(*record));
  }
  return true;
}

}  // namespace

std::optional<Header> read_header(Bytes message) {
  if (message.size() < kHeaderSize) return std::nullopt;
  Reader in(message);
  return Header{*in.u16(), *in.u16(), *in.u16(), *in.u16(), *in.u16(), *in.u16()};
}

std::optional<std::string> read_name(Bytes message, std::size_t& at) {
  std::string name;
  std::size_t here = at;
  std::size_t before = at;  // a pointer must lead to before this
  bool jumped = false;
  for (;;) {
    if (here >= message.size()) return std::nullopt;
    const std::uint8_t length = message[here];
    if ((length & kPointerBits) == kPointerBits) {
      if (here + 1 >= message.size()) return std::nullopt;
      const std::size_t target = static_cast<std::size_t>(length & 0x3f) << 8 | message[here + 1];
      if (target >= before || target < kHeaderSize) return std::nullopt;
      if (!jumped) at = here + 2;
      jumped = true;
      here = before = target;
      continue;
    }
    if (length > kMaxLabel) return std::nullopt;  // 0x40 and 0x80 were never put to use
    if (here + 1 + length > message.size() || name.size() + 1 + length > kMaxWireName)
      return std::nullopt;
    name.append(as_text(message.subspan(here, 1U + length)));
    here += 1U + length;
    if (length == 0) {
      if (!jumped) at = here;
      return name;
    }
  }
}

// Length bytes are below 64, so folding case over the whole text cannot touch them.
bool same_name(std::string_view a, std::string_view b) {
  return std::ranges::equal(a, b, {}, ascii_lower, ascii_lower);
}

std::string name_text(std::string_view wire) {
  if (wire.size() <= 1) return ".";
  std::string out;
  out.reserve(wire.size());
  for (std::size_t at = 0; at < wire.size() && wire[at] != 0;) {
    if (at > 0) out += '.';
    const auto length = static_cast<std::uint8_t>(wire[at]);
    for (const char raw : wire.substr(at + 1, length)) {
      const char c = ascii_lower(raw);
      const auto byte = static_cast<std::uint8_t>(c);
      if ((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_') {
        out += c;
      } else {
        out += '\\';
        for (const int unit : {100, 10, 1}) out += static_cast<char>('0' + byte / unit % 10);
      }
    }
    at += 1U + length;
  }
  return out;
}

std::optional<WireQuestion> read_question(Bytes message, std::size_t& at) {
  auto name = read_name(message, at);
  if (!name) return std::nullopt;
  Reader in(message.subspan(at));
  const auto type = in.u16();
  const auto klass = in.u16();
  if (!type || !klass) return std::nullopt;
  at += 4;
  return WireQuestion{std::move(*name), *type, *klass};
}

std::optional<WireRecord> read_record(Bytes message, std::size_t& at) {
  auto owner = read_name(message, at);
  if (!owner) return std::nullopt;
  Reader in(message.subspan(at));
  const auto type = in.u16();
  const auto klass = in.u16();
  const auto ttl = in.u32();
  const auto size = in.u16();
  // A read that does not fit consumes nothing, so a narrower one behind it may fit: all four are
  // asked.
  if (!type || !klass || !ttl || !size || !in.take(*size)) return std::nullopt;
  constexpr std::size_t kFixed = 10;
  WireRecord record{std::move(*owner), *type, *klass, *ttl, at + kFixed, *size};
  at += kFixed + *size;
  return record;
}

std::optional<WireMessage> read_message(Bytes message) {
  const auto header = read_header(message);
  if (!header || header->questions != 1) return std::nullopt;
  WireMessage out{*header, {}, {}, {}, {}};
  std::size_t at = kHeaderSize;
  auto question = read_question(message, at);
  if (!question) return std::nullopt;
  out.question = std::move(*question);
  if (!read_section(message, at, header->answers, out.answers) ||
      !read_section(message, at, header->authority, out.authority) ||
      !read_section(message, at, header->additional, out.additional)) {
    return std::nullopt;
  }
  return out;
}

void put16(std::string& out, unsigned value) {
  out += static_cast<char>(value >> 8 & 0xff);
  out += static_cast<char>(value & 0xff);
}
void put32(std::string& out, std::uint32_t value) {
  put16(out, value >> 16);
  put16(out, value & 0xffff);
}

void RecordWriter::remember(std::size_t at, std::string_view wire) {
  while (wire.size() > 1 && at <= kMaxPointer) {
    known_.try_emplace(lower(wire), at);
    const std::size_t label = 1U + static_cast<std::uint8_t>(wire[0]);
    at += label;
    wire.remove_prefix(label);
  }
}

void RecordWriter::put_name(std::string_view wire) {
  const std::string_view whole = wire;
  std::size_t labels = 0;  // bytes written as labels before the pointer or the root
  while (wire.size() > 1) {
    if (const auto found = known_.find(lower(wire)); found != known_.end()) {
      const std::size_t start = out_.size();
      out_ += whole.substr(0, labels);
      put16(out_, static_cast<unsigned>(0xc000 | found->second));
      for (std::size_t at = 0; at < labels; at += 1U + static_cast<std::uint8_t>(whole[at])) {
        if (start + at <= kMaxPointer) known_.try_emplace(lower(whole.substr(at)), start + at);
      }
      return;
    }
    const std::size_t label = 1U + static_cast<std::uint8_t>(wire[0]);
    labels += label;
    wire.remove_prefix(label);
  }
  remember(out_.size(), whole);
  out_ += whole;
}

bool RecordWriter::put_data(Bytes message, const WireRecord& record) {
  const Bytes until_end = message.first(record.data_at + record.data_size);
  const NameLayout* layout = layout_of(record.type);
  std::size_t at = record.data_at;
  if (layout) {
    Reader in(until_end.subspan(at));
    bool whole = in.take(layout->before).has_value();
    for (int i = 0; whole && i < layout->strings; ++i) {
      const auto length = in.u8();
      whole = length && in.take(*length);
    }
    if (!whole) return false;
    const std::size_t names_at = until_end.size() - in.left();
    out_ += as_text(message.subspan(at, names_at - at));
    at = names_at;
    for (int i = 0; i < layout->names; ++i) {
      // Within `until_end`, so that no name runs on into the next record.
      const auto name = read_name(until_end, at);
      if (!name) return false;
      if (layout->compress) {
        put_name(*name);
      } else {
        out_ += *name;
      }
    }
  }
  out_ += as_text(until_end.subspan(at));
  return true;
}

bool RecordWriter::put(Bytes message, const WireRecord& record,
                       const std::optional<std::string>& data) {
  const std::size_t start = out_.size();
  put_name(record.owner);
  put16(out_, record.type);
  put16(out_, record.klass);
  put32(out_, record.ttl);
  const std::size_t size_at = out_.size();
  put16(out_, 0);
  if (data) {
    out_ += *data;
  } else if (!put_data(message, record)) {
    out_.resize(start);
    std::erase_if(known_, [start](const auto& entry) { return entry.second >= start; });
    return false;
  }
  const std::size_t size = out_.size() - size_at - 2;
  out_[size_at] = static_cast<char>(size >> 8 & 0xff);
  out_[size_at + 1] = static_cast<char>(size & 0xff);
  return true;
}

}  // namespace sallyport::dns
