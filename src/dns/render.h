// SPDX-License-Identifier: Apache-2.0
// The parts that every answer of ours has: header, the client's question, an OPT record of our own.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "dns/message.h"

namespace sallyport::dns {

// Header (all counts zero but the question's) and question. `flags` are added to those that follow
// from the query.
[[nodiscard]] std::string answer_head(const Query& query, unsigned rcode, std::uint16_t flags = 0);
void set_count(std::string& answer, std::size_t section,
               std::size_t count);  // 0 question ... 3 additional

struct ExtendedError {
  std::uint16_t code = 0;  // RFC 8914
  std::string_view text;
};
inline constexpr ExtendedError kNoExtendedError{0xffff, {}};
inline constexpr std::uint16_t kBlocked = 15;
inline constexpr std::size_t kOptSize = 11;

// Appends OPT if the query had one, and counts it.
void put_opt(std::string& answer, const Query& query, unsigned rcode,
             const ExtendedError& error = kNoExtendedError);

}  // namespace sallyport::dns
