// SPDX-License-Identifier: Apache-2.0
#include "dns/ldns_reader.h"

#include <algorithm>
#include <cstdlib>

#include "base/host_name.h"

// Last, and its macros undone: ldns defines bool, true and false for C.
#include <ldns/ldns.h>
#undef bool
#undef true
#undef false

namespace sallyport::dns {
namespace {

std::string owned(char* text) {
  std::string out = text ? text : "";
  std::free(text);
  return out;
}

std::vector<std::string> lines(const ldns_rr_list* list) {
  std::vector<std::string> out;
  for (std::size_t i = 0; i < ldns_rr_list_rr_count(list); ++i) {
    std::string line = owned(ldns_rr2str(ldns_rr_list_rr(list, i)));
    std::ranges::transform(line, line.begin(), ascii_lower);
    out.push_back(std::move(line));
  }
  return out;
}

}  // namespace

std::optional<LdnsView> read_with_ldns(Bytes message) {
  ldns_pkt* packet = nullptr;
  if (ldns_wire2pkt(&packet, message.data(), message.size()) != LDNS_STATUS_OK) return std::nullopt;
  LdnsView view;
  view.rcode = ldns_pkt_get_rcode(packet);
  view.truncated = ldns_pkt_tc(packet) != 0;
  view.edns = ldns_pkt_edns(packet) != 0;
  view.udp_size = ldns_pkt_edns_udp_size(packet);
  const auto questions = lines(ldns_pkt_question(packet));
  if (questions.size() == 1) view.question = questions.front();
  view.answers = lines(ldns_pkt_answer(packet));
  view.authority = lines(ldns_pkt_authority(packet));
  view.additional = lines(ldns_pkt_additional(packet));
  ldns_pkt_free(packet);
  return view;
}

}  // namespace sallyport::dns
