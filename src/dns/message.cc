// SPDX-License-Identifier: Apache-2.0
#include "dns/message.h"

#include <algorithm>
#include <utility>

#include "base/host_name.h"
#include "dns/render.h"
#include "dns/wire.h"

namespace sallyport::dns {
namespace {

constexpr std::pair<std::uint16_t, std::string_view> kTypeNames[] = {
    {1, "A"},     {2, "NS"},     {5, "CNAME"},  {6, "SOA"},    {12, "PTR"},    {13, "HINFO"},
    {15, "MX"},   {16, "TXT"},   {28, "AAAA"},  {33, "SRV"},   {35, "NAPTR"},  {41, "OPT"},
    {43, "DS"},   {44, "SSHFP"}, {46, "RRSIG"}, {47, "NSEC"},  {48, "DNSKEY"}, {52, "TLSA"},
    {64, "SVCB"}, {65, "HTTPS"}, {99, "SPF"},   {250, "TSIG"}, {251, "IXFR"},  {252, "AXFR"},
    {255, "ANY"}, {257, "CAA"},
};

// Types that are no data: reserved, OPT, and the range that RFC 6895 keeps for transfers, ANY and
// signatures (D-05).
bool is_meta_type(std::uint16_t type) {
  return type == 0 || type == kOpt || (type >= 128 && type <= 255);
}

Refusal refuse(const Query& query, Rcode rcode, std::string_view why) {
  const auto code = static_cast<unsigned>(rcode);
  std::string answer = answer_head(query, code);
  put_opt(answer, query, code);
  return {std::move(answer), rcode, query.name, query.type, why};
}

// The only record that a query may carry. Sets query.edns as soon as it is known, so that refusals
// have an OPT too.
std::optional<Refusal> read_opt(Bytes message, std::size_t& at, Query& query) {
  if (at >= message.size() || message[at] != 0)
    return refuse(query, Rcode::formerr, "record other than OPT in a query");
  const auto record = read_record(message, at);
  if (!record) return refuse(query, Rcode::formerr, "malformed OPT");
  if (record->type != kOpt)
    return refuse(query, Rcode::formerr, "record other than OPT in a query");
  Reader options(message.subspan(record->data_at, record->data_size));
  while (!options.empty()) {
    const auto code = options.u16();
    const auto size = options.u16();
    if (!code || !size || !options.take(*size))
      return refuse(query, Rcode::formerr, "malformed EDNS option");
  }
  query.edns = Edns{record->klass, (record->ttl & 0x8000) != 0};
  if ((record->ttl >> 16 & 0xff) != 0) return refuse(query, Rcode::badvers, "EDNS version over 0");
  return std::nullopt;
}

}  // namespace

std::string type_name(std::uint16_t type) {
  const auto* found =
      std::ranges::find(kTypeNames, type, &std::pair<std::uint16_t, std::string_view>::first);
  return found != std::end(kTypeNames) ? std::string(found->second) : "TYPE" + std::to_string(type);
}

std::size_t Query::udp_limit() const {
  if (!edns) return kPlainUdpLimit;
  return std::clamp<std::size_t>(edns->udp_size, kPlainUdpLimit, kUdpLimit);
}

std::expected<Query, Refusal> parse_query(Bytes message) {
  using Refused = std::unexpected<Refusal>;
  const auto header = read_header(message);
  if (!header) return Refused({{}, Rcode::formerr, {}, 0, "shorter than a header"});
  // Answering an answer could go on for ever.
  if (header->flags & flag::kAnswer)
    return Refused({{}, Rcode::formerr, {}, 0, "an answer, not a query"});

  Query query;
  query.id = header->id;
  query.recursion_desired = header->flags & flag::kRecursionDesired;
  query.authentic_data = header->flags & flag::kAuthenticData;
  query.checking_disabled = header->flags & flag::kCheckingDisabled;
  if (header->flags & flag::kOpcode)
    return Refused(refuse(query, Rcode::notimp, "opcode is not QUERY"));
  if (header->questions != 1)
    return Refused(refuse(query, Rcode::formerr, "not exactly one question"));

  std::size_t at = kHeaderSize;
  const auto question = read_question(message, at);
  // A compressed name has nothing to point at in a query; the length tells whether it was written
  // in full.
  if (!question || at != kHeaderSize + question->name.size() + 4) {
    return Refused(refuse(query, Rcode::formerr, "malformed question"));
  }
  query.question = as_text(message.subspan(kHeaderSize, at - kHeaderSize));
  query.type = question->type;
  query.name = name_text(question->name);
  if (header->answers != 0 || header->authority != 0 || header->additional > 1) {
    return Refused(refuse(query, Rcode::formerr, "records other than OPT in a query"));
  }
  if (header->additional == 1) {
    if (auto refusal = read_opt(message, at, query)) return Refused(std::move(*refusal));
  }
  if (at != message.size()) return Refused(refuse(query, Rcode::formerr, "bytes behind the query"));
  if (question->klass != kClassIn) return Refused(refuse(query, Rcode::refused, "class is not IN"));
  if (is_meta_type(query.type))
    return Refused(refuse(query, Rcode::refused, "ANY, a zone transfer or a meta type"));
  query.host_name = normal_host_name(query.name);
  return query;
}

std::string answer_head(const Query& query, unsigned rcode, std::uint16_t flags) {
  std::string out;
  out.reserve(kPlainUdpLimit);
  unsigned all = flag::kAnswer | flag::kRecursionAvailable | flags | (rcode & flag::kRcode);
  if (query.recursion_desired) all |= flag::kRecursionDesired;
  if (query.checking_disabled) all |= flag::kCheckingDisabled;
  put16(out, query.id);
  put16(out, all);
  put16(out, query.question.empty() ? 0 : 1);
  out.append(6, '\0');
  return out += query.question;
}

void set_count(std::string& answer, std::size_t section, std::size_t count) {
  answer[4 + section * 2] = static_cast<char>(count >> 8 & 0xff);
  answer[5 + section * 2] = static_cast<char>(count & 0xff);
}

void put_opt(std::string& answer, const Query& query, unsigned rcode, const ExtendedError& error) {
  if (!query.edns) return;
  answer += '\0';
  put16(answer, kOpt);
  put16(answer, kUdpLimit);  // what we are ready to receive
  put32(answer, (rcode >> 4) << 24 | (query.edns->dnssec_ok ? 0x8000U : 0U));
  if (error.code == kNoExtendedError.code) {
    put16(answer, 0);
  } else {
    constexpr std::size_t kMaxText = 128;
    const std::string_view text = error.text.substr(0, kMaxText);
    put16(answer, static_cast<unsigned>(6 + text.size()));
    put16(answer, 15);  // OPTION-CODE of an extended error
    put16(answer, static_cast<unsigned>(2 + text.size()));
    put16(answer, error.code);
    answer += text;
  }
  Reader counts(as_bytes(answer).subspan(10));
  set_count(answer, 3, *counts.u16() + 1U);
}

std::string render_denied(const Query& query, std::string_view text) {
  constexpr auto kCode = static_cast<unsigned>(Rcode::nxdomain);
  std::string out = answer_head(query, kCode);
  put_opt(out, query, kCode, {kBlocked, text});
  return out;
}

std::string render_failure(const Query& query, Rcode rcode) {
  const auto code = static_cast<unsigned>(rcode);
  std::string out = answer_head(query, code);
  put_opt(out, query, code);
  return out;
}

Result<std::string> render_query(std::uint16_t id, std::string_view name, std::uint16_t type,
                                 std::optional<Edns> edns) {
  if (name.ends_with('.')) name.remove_suffix(1);
  std::string out;
  put16(out, id);
  put16(out, flag::kRecursionDesired);
  put16(out, 1);
  put32(out, 0);
  put16(out, edns ? 1 : 0);
  const std::size_t start = out.size();
  while (!name.empty()) {
    const std::string_view label = name.substr(0, name.find('.'));
    if (label.empty() || label.size() > kMaxLabel) return fail(Code::invalid, "not a DNS name");
    out += static_cast<char>(label.size());
    out += label;
    name.remove_prefix(std::min(name.size(), label.size() + 1));
  }
  out += '\0';
  if (out.size() - start > kMaxWireName) return fail(Code::invalid, "DNS name over 255 bytes");
  put16(out, type);
  put16(out, kClassIn);
  if (edns) {
    out += '\0';
    put16(out, kOpt);
    put16(out, edns->udp_size);
    put32(out, edns->dnssec_ok ? 0x8000 : 0);
    put16(out, 0);
  }
  return out;
}

}  // namespace sallyport::dns
