// SPDX-License-Identifier: Apache-2.0
// The first byte says which side sent the rest: a guest (even) or an upstream (odd). What we write
// ourselves must be readable by our own readers, within the limit, and free of ech.
#include <cstdint>
#include <string>

#include "base/check.h"
#include "base/host_name.h"
#include "dns/message.h"
#include "dns/svcb.h"
#include "dns/wire.h"

using namespace sallyport;
using namespace sallyport::dns;

namespace {

void check_answer_shape(Bytes answer, Bytes query) {
  CHECK(answer.size() >= 12 && answer.size() <= kPlainUdpLimit);
  CHECK(answer[0] == query[0] && answer[1] == query[1] && (answer[2] & 0x80));
  const auto header = read_header(answer);
  if (header->questions == 1) CHECK(read_message(answer));
  CHECK(header->answers == 0 && header->authority == 0);  // nothing of the internet in a refusal
}

void from_guest(Bytes bytes) {
  const auto query = parse_query(bytes);
  if (!query) {
    if (!query.error().answer.empty()) check_answer_shape(as_bytes(query.error().answer), bytes);
    return;
  }
  CHECK(!query->host_name || normal_host_name(*query->host_name) == query->host_name);
  CHECK(!query->host_name || *query->host_name == query->name);
  CHECK(query->udp_limit() >= kPlainUdpLimit && query->udp_limit() <= kUdpLimit);
  const std::string denied = render_denied(*query);
  check_answer_shape(as_bytes(denied), bytes);
  check_answer_shape(as_bytes(render_failure(*query, Rcode::servfail)), bytes);
  // Our own denial is an answer to this query, and stays one when it is prepared again.
  const auto again = prepare_answer(*query, as_bytes(denied), query->udp_limit());
  CHECK(again && again->substr(0, 12 + query->question.size()) ==
                     denied.substr(0, 12 + query->question.size()));
  if (query->host_name) {
    const auto rendered = render_query(query->id, *query->host_name, query->type, query->edns);
    CHECK(rendered && parse_query(as_bytes(*rendered))->host_name == query->host_name);
  }
}

void check_no_ech(Bytes answer) {
  const auto message = read_message(answer);
  CHECK(message);
  for (const auto* section : {&message->answers, &message->authority, &message->additional}) {
    for (const WireRecord& record : *section) {
      if (record.type != kSvcb && record.type != kHttps) continue;
      const auto clean = without_ech(answer.subspan(record.data_at, record.data_size));
      CHECK(clean && !clean->changed);
    }
  }
}

void from_upstream(Bytes bytes) {
  const auto found = addresses(bytes);
  if (found) CHECK(found->addresses.size() <= kMaxAddresses);
  std::size_t at = kHeaderSize;
  const auto question = read_question(bytes, at);
  if (!question) return;
  Query query;
  query.question = question->name;
  put16(query.question, question->type);
  put16(query.question, question->klass);
  query.type = question->type;
  query.edns = Edns{1232, true};
  const auto whole = prepare_answer(query, bytes, kMaxMessage);
  const auto cut = prepare_answer(query, bytes, kPlainUdpLimit);
  if (cut) {
    CHECK(cut->size() <= kPlainUdpLimit);
    check_no_ech(as_bytes(*cut));
  }
  if (!whole) return;
  check_no_ech(as_bytes(*whole));
  const auto fixed_point = prepare_answer(query, as_bytes(*whole), kMaxMessage);
  CHECK(fixed_point && *fixed_point == *whole);
  if (found && !((*whole)[2] & 0x02)) {
    const auto after = addresses(as_bytes(*whole));
    CHECK(after && after->addresses == found->addresses && after->ttl == found->ttl);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const Bytes rest{data + 1, size - 1};
  if (data[0] % 2 == 0) {
    from_guest(rest);
  } else {
    from_upstream(rest);
  }
  return 0;
}
