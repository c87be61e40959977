// SPDX-License-Identifier: Apache-2.0
#include "dns/svcb.h"

#include "dns/wire.h"

namespace sallyport::dns {
namespace {

constexpr std::uint16_t kMandatory = 0;
constexpr std::uint16_t kEch = 5;

// The value of `mandatory` without ech; nothing if it is malformed.
std::optional<std::string> clean_mandatory(Bytes value) {
  if (value.empty() || value.size() % 2 != 0) return std::nullopt;
  std::string out;
  Reader in(value);
  while (const auto key = in.u16()) {
    if (*key != kEch) put16(out, *key);
  }
  return out;
}

}  // namespace

std::optional<CleanSvcb> without_ech(Bytes data) {
  if (data.size() < 3) return std::nullopt;
  std::size_t at = 2;
  // Compression is forbidden here (RFC 9460 s2.2), and a pointer would be read against the wrong
  // message.
  for (std::uint8_t length = data[at]; length != 0; length = data[at]) {
    if (length > 63 || at + 1U + length >= data.size() || at + 1U + length - 2 >= kMaxWireName)
      return std::nullopt;
    at += 1U + length;
  }
  ++at;
  CleanSvcb clean{std::string(as_text(data.first(at))), false};
  std::optional<std::uint16_t> previous;
  for (Reader in(data.subspan(at)); !in.empty();) {
    const auto key = in.u16();
    const auto size = in.u16();
    const auto value = size ? in.take(*size) : std::nullopt;
    if (!value || (previous && *key <= *previous))
      return std::nullopt;  // keys in strict order: none twice
    previous = *key;
    std::string kept(as_text(*value));
    if (*key == kMandatory) {
      auto mandatory = clean_mandatory(*value);
      if (!mandatory) return std::nullopt;
      kept = std::move(*mandatory);
    }
    const bool drop = *key == kEch || (*key == kMandatory && kept.empty());
    clean.changed |= drop || kept.size() != value->size();
    if (drop) continue;
    put16(clean.data, *key);
    put16(clean.data, static_cast<unsigned>(kept.size()));
    clean.data += kept;
  }
  return clean;
}

}  // namespace sallyport::dns
