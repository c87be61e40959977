// SPDX-License-Identifier: Apache-2.0
// A Postgres negotiation gets the same answers byte by byte as all at once, and ends after two
// requests at the most.
#include <algorithm>
#include <cstdint>
#include <string>

#include "base/check.h"
#include "postgres/startup.h"

using namespace sallyport;
using namespace sallyport::postgres;

namespace {

// The actions as letters, and how many bytes were consumed.
std::string talk(Bytes bytes, std::size_t piece) {
  Negotiation negotiation;
  std::string actions;
  std::size_t consumed = 0;
  for (std::size_t arrived = 0;;) {
    const Step step = negotiation.feed(bytes.subspan(consumed, arrived - consumed));
    consumed += step.consumed;
    CHECK(consumed <= arrived && actions.size() <= 2);
    if (step.action == Action::need_more) {
      CHECK(arrived - consumed < kMaxNegotiation);
      if (arrived == bytes.size()) return actions + "?" + std::to_string(consumed);
      arrived = std::min(bytes.size(), arrived + piece);
      continue;
    }
    actions += static_cast<char>('0' + static_cast<int>(step.action));
    if (step.action == Action::answer_no) continue;
    CHECK((step.action == Action::refuse) == !step.why.empty());
    return actions + std::to_string(consumed);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const Bytes bytes{data, size};
  const std::string whole = talk(bytes, size + 1);
  CHECK(talk(bytes, 1) == whole);
  CHECK(talk(bytes, 7) == whole);
  const bool other = looks_like_postgres(bytes) == FirstBytes::other;
  CHECK(other == (Negotiation().feed(bytes).action == Action::refuse));
  CHECK((read_upstream_answer(bytes) == UpstreamAnswer::tls) == (size == 1 && data[0] == 'S'));
  const std::string error = render_error(kInvalidAuthorization, as_text(bytes));
  Reader in(as_bytes(error).subspan(1));
  CHECK(*in.u32() == error.size() - 1);
  CHECK(std::ranges::count(error.substr(5), '\0') ==
        5);  // four fields and the end, whatever the message holds
  return 0;
}
