// SPDX-License-Identifier: Apache-2.0
// What a hostile agent sends, from HTTP/2 framing down to the JSON in the records. The first byte
// says how it is cut into pieces. Whatever comes: nothing held grows past its bound, and a failed
// session stays failed.
#include <algorithm>
#include <cstdlib>
#include <map>
#include <string>

#include "driver/agent_answers.h"
#include "driver/agent_session.h"
#include "guest/protocol.h"

namespace {

using namespace sallyport;

void require(bool fact) {
  if (!fact) std::abort();
}

void drain(driver::AgentSession& session) {
  while (!session.next_output().empty()) {
  }
}

// As AgentCommand does it. Returns false when the stream is of no more use.
bool read_records(std::string& buffered) {
  for (;;) {
    const auto record = guest::parse_record(as_bytes(buffered));
    if (!record) return record.error() == ParseStop::need_more;
    (void)driver::read_started(*record);
    if (!driver::read_event(*record)) return false;
    buffered.erase(0, record->consumed);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  driver::AgentSession session;
  std::map<int, std::string> buffered;
  for (const char* path : {"/v1/health", "/v1/processes", "/v1/processes"}) {
    const auto stream = session.request("POST", path, "{}");
    require(stream.has_value());
    buffered[*stream];
  }
  drain(session);
  const std::size_t step = data[0] == 0 ? size : data[0];
  Bytes rest(data + 1, size - 1);
  while (!rest.empty()) {
    const Bytes piece = rest.first(std::min(step, rest.size()));
    rest = rest.subspan(piece.size());
    if (!session.receive(piece)) break;
    for (const int stream : session.take_changed()) {
      const std::string body = session.take_body(stream);
      require(body.size() <= driver::kStreamWindow);
      const auto found = buffered.find(stream);
      if (found == buffered.end()) continue;
      const driver::AgentAnswer answer{.status = session.status(stream), .body = body};
      (void)driver::read_health(answer);
      require(driver::read_refusal(answer).message.size() <= 300);
      found->second += body;
      require(found->second.size() <= guest::kMaxRecord + 5 + driver::kStreamWindow);
      if (!read_records(found->second)) {
        session.release(stream);
        buffered.erase(found);
      }
    }
    drain(session);
  }
  if (session.failed()) {
    require(!session.receive(Bytes(data, size)));
    require(!session.request("GET", "/", "").has_value());
  }
  return 0;
}
