// SPDX-License-Identifier: Apache-2.0
// The upstream's answer on its way to the guest. The message is always taken apart and written
// anew: what the guest gets was read completely here, and a record that shrinks (ech) cannot leave
// compression pointers that lead astray.
#include <algorithm>
#include <optional>

#include "dns/message.h"
#include "dns/render.h"
#include "dns/svcb.h"
#include "dns/wire.h"

namespace sallyport::dns {
namespace {

bool is_svcb(std::uint16_t type) { return type == kSvcb || type == kHttps; }

struct Outgoing {
  const WireRecord* record;
  std::optional<std::string> data;  // instead of the record's own
};
using Section = std::vector<Outgoing>;

// What may go on, and whether ech was removed from anything.
struct Cleaned {
  Section answers;
  Section authority;
  Section additional;
  bool changed = false;
};

void clean_section(Bytes message, const std::vector<WireRecord>& records, Section& out,
                   bool& changed) {
  for (const WireRecord& record : records) {
    if (record.type == kOpt) continue;  // speaks for the hop it came over
    if (!is_svcb(record.type)) {
      out.push_back({&record, std::nullopt});
      continue;
    }
    auto clean = without_ech(message.subspan(record.data_at, record.data_size));
    changed |= !clean || clean->changed;
    if (clean) out.push_back({&record, std::move(clean->data)});
  }
}

// Signatures over records that were changed prove nothing any more.
void drop_signatures(Bytes message, Section& section) {
  std::erase_if(section, [&](const Outgoing& item) {
    if (item.record->type != kRrsig) return false;
    Reader in(message.subspan(item.record->data_at, item.record->data_size));
    return is_svcb(in.u16().value_or(kSvcb));
  });
}

Cleaned clean(Bytes message, const WireMessage& parsed) {
  Cleaned out;
  clean_section(message, parsed.answers, out.answers, out.changed);
  clean_section(message, parsed.authority, out.authority, out.changed);
  clean_section(message, parsed.additional, out.additional, out.changed);
  if (out.changed) {
    for (Section* section : {&out.answers, &out.authority, &out.additional})
      drop_signatures(message, *section);
  }
  return out;
}

// The upper bits of the rcode are in the upstream's OPT.
unsigned full_rcode(const WireMessage& message) {
  unsigned rcode = message.header.flags & flag::kRcode;
  for (const WireRecord& record : message.additional) {
    if (record.type == kOpt) rcode |= record.ttl >> 24 << 4;
  }
  return rcode;
}

bool answers_question(const Query& query, const WireMessage& message) {
  if (!(message.header.flags & flag::kAnswer) || (message.header.flags & flag::kOpcode))
    return false;
  std::string asked = message.question.name;
  put16(asked, message.question.type);
  put16(asked, message.question.klass);
  // Folds case over type and class bytes too, so both are compared exactly as well.
  return asked.size() == query.question.size() && same_name(asked, query.question) &&
         message.question.type == query.type && message.question.klass == kClassIn;
}

enum class Fit { all, cut, malformed };

// Whole records only. What fits of a set that does not fit is sent along with TC: some stub
// resolvers (musl before 1.2.4) have no TCP and take what they get.
Fit put_section(Bytes message, const Section& section, std::size_t number, std::size_t room,
                RecordWriter& writer, std::string& out) {
  std::size_t count = 0;
  for (const Outgoing& item : section) {
    const std::size_t before = out.size();
    if (!writer.put(message, *item.record, item.data)) return Fit::malformed;
    if (out.size() > room) {
      out.resize(before);
      set_count(out, number, count);
      return Fit::cut;
    }
    ++count;
  }
  set_count(out, number, count);
  return Fit::all;
}

}  // namespace

Result<std::string> prepare_answer(const Query& query, Bytes upstream, std::size_t limit) {
  const auto parsed = read_message(upstream);
  if (!parsed) return fail(Code::invalid, "malformed DNS answer");
  if (!answers_question(query, *parsed))
    return fail(Code::invalid, "DNS answer to another question");
  unsigned rcode = full_rcode(*parsed);
  if (rcode > flag::kRcode && !query.edns) rcode = static_cast<unsigned>(Rcode::servfail);

  const Cleaned cleaned = clean(upstream, *parsed);
  std::uint16_t flags = parsed->header.flags & flag::kTruncated;
  const bool wants_proof = query.authentic_data || (query.edns && query.edns->dnssec_ok);
  if (wants_proof && !cleaned.changed) flags |= parsed->header.flags & flag::kAuthenticData;

  std::string out = answer_head(query, rcode, flags);
  const std::size_t room =
      std::clamp(limit, kPlainUdpLimit, kMaxMessage) - (query.edns ? kOptSize : 0);
  RecordWriter writer(out);
  writer.remember(kHeaderSize, parsed->question.name);
  const auto put = [&](const Section& section, std::size_t number) {
    return put_section(upstream, section, number, room, writer, out);
  };
  Fit fit = put(cleaned.answers, 1);
  if (fit == Fit::all) fit = put(cleaned.authority, 2);
  if (fit == Fit::cut) out[2] = static_cast<char>(out[2] | flag::kTruncated >> 8);
  // Additional records are a courtesy: leaving some out needs no TC (RFC 2181 s9).
  if (fit == Fit::all && put(cleaned.additional, 3) == Fit::malformed) fit = Fit::malformed;
  if (fit == Fit::malformed) return fail(Code::invalid, "malformed record in a DNS answer");
  put_opt(out, query, rcode);
  return out;
}

Result<Addresses> addresses(Bytes answer) {
  const auto parsed = read_message(answer);
  if (!parsed || !(parsed->header.flags & flag::kAnswer))
    return fail(Code::invalid, "malformed DNS answer");
  Addresses out;
  out.rcode = static_cast<std::uint8_t>(full_rcode(*parsed) & 0xff);
  std::uint32_t ttl = 0x7fffffff;
  const auto use = [&ttl](const WireRecord& record) {
    ttl = std::min(ttl, record.ttl > 0x7fffffff ? 0 : record.ttl);  // RFC 2181 s8
  };

  std::string name = parsed->question.name;
  for (std::size_t hops = 0; hops <= kMaxChain; ++hops) {
    const auto cname = std::ranges::find_if(parsed->answers, [&](const WireRecord& record) {
      return record.type == kCname && record.klass == kClassIn && same_name(record.owner, name);
    });
    if (cname == parsed->answers.end()) break;
    if (hops == kMaxChain) return fail(Code::invalid, "CNAME chain does not end");
    std::size_t at = cname->data_at;
    auto target = read_name(answer.first(cname->data_at + cname->data_size), at);
    if (!target) return fail(Code::invalid, "malformed CNAME");
    use(*cname);
    name = std::move(*target);
  }

  for (const WireRecord& record : parsed->answers) {
    if (record.klass != kClassIn || !same_name(record.owner, name)) continue;
    const Bytes data = answer.subspan(record.data_at, record.data_size);
    if (record.type == kA) {
      const auto v4 = Reader(data).u32();
      if (!v4 || data.size() != 4) return fail(Code::invalid, "malformed A record");
      out.addresses.push_back(Address::v4(*v4));
    } else if (record.type == kAaaa) {
      Address::Raw raw;
      if (data.size() != raw.size()) return fail(Code::invalid, "malformed AAAA record");
      std::ranges::copy(data, raw.begin());
      out.addresses.push_back(Address(raw));
    } else {
      continue;
    }
    use(record);
    if (out.addresses.size() == kMaxAddresses) break;
  }
  out.ttl = ttl == 0x7fffffff ? 0 : ttl;
  return out;
}

}  // namespace sallyport::dns
