// SPDX-License-Identifier: Apache-2.0
// The messages (kernel: net/netfilter/nf_tables_api.c): BATCH_BEGIN, per family DELSETELEM (without
// elements: all of them) and NEWSETELEM with as many elements as an attribute can hold, BATCH_END.
// A range first-last is an element at `first` that carries the judgement and an element at last+1
// that is flagged as an end.
#include "host/map_update.h"

#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <sys/socket.h>

#include <algorithm>
#include <iterator>
#include <optional>

#include "host/netfilter_socket.h"

namespace sallyport::host {
namespace {

constexpr std::size_t kRangesPerMessage = 400;  // attribute lengths are 16 bits

class Batch {
 public:
  Batch() {
    append(NetlinkMessage(NFNL_MSG_BATCH_BEGIN, NLM_F_REQUEST, AF_UNSPEC, NFNL_SUBSYS_NFTABLES));
  }
  [[nodiscard]] std::uint32_t length() const { return sequence_; }  // messages
  void append(NetlinkMessage message) {
    message.set_sequence(++sequence_);
    const Bytes bytes = message.bytes();
    data_.insert(data_.end(), bytes.begin(), bytes.end());
  }
  Bytes finish() {
    append(NetlinkMessage(NFNL_MSG_BATCH_END, NLM_F_REQUEST, AF_UNSPEC, NFNL_SUBSYS_NFTABLES));
    return data_;
  }

 private:
  std::vector<std::uint8_t> data_;
  std::uint32_t sequence_ = 0;
};

NetlinkMessage element_message(int type, std::uint16_t flags, const char* map) {
  NetlinkMessage message(static_cast<std::uint16_t>(NFNL_SUBSYS_NFTABLES << 8 | type),
                         static_cast<std::uint16_t>(NLM_F_REQUEST | flags), NFPROTO_INET);
  message.put_text(NFTA_SET_ELEM_LIST_TABLE, "sallyport");
  message.put_text(NFTA_SET_ELEM_LIST_SET, map);
  return message;
}

Bytes key_of(const Address& address, bool four) {
  const Bytes all(address.raw());
  return four ? all.subspan(12) : all;
}

// last + 1; nothing after the last address of the family.
std::optional<Address> after(const Address& last, bool four) {
  Address::Raw raw = last.raw();
  const std::size_t begin = four ? 12 : 0;
  for (std::size_t i = raw.size(); i-- > begin;) {
    if (++raw[i] != 0) return Address(raw);
  }
  return std::nullopt;
}

void put_element(NetlinkMessage& message, Bytes key, std::optional<Judgement> judgement) {
  const auto element = message.begin(NFTA_LIST_ELEM);
  if (!judgement) message.put_be32(NFTA_SET_ELEM_FLAGS, NFT_SET_ELEM_INTERVAL_END);
  const auto key_nest = message.begin(NFTA_SET_ELEM_KEY);
  message.put(NFTA_DATA_VALUE, key);
  message.end(key_nest);
  if (judgement) {
    const auto mark = static_cast<std::uint32_t>(*judgement);  // a mark is in host byte order
    const auto data = message.begin(NFTA_SET_ELEM_DATA);
    message.put(NFTA_DATA_VALUE, {reinterpret_cast<const std::uint8_t*>(&mark), sizeof mark});
    message.end(data);
  }
  message.end(element);
}

struct Map {
  const char* name;
  bool four;
};

void put_ranges(Batch& batch, int type, const Map& map, const std::vector<Judged>& ranges) {
  for (std::size_t at = 0; at < ranges.size(); at += kRangesPerMessage) {
    NetlinkMessage message =
        element_message(type, type == NFT_MSG_NEWSETELEM ? NLM_F_CREATE : 0, map.name);
    const auto elements = message.begin(NFTA_SET_ELEM_LIST_ELEMENTS);
    for (std::size_t i = at; i < std::min(at + kRangesPerMessage, ranges.size()); ++i) {
      put_element(message, key_of(ranges[i].range.first, map.four), ranges[i].judgement);
      if (const auto end = after(ranges[i].range.last, map.four))
        put_element(message, key_of(*end, map.four), std::nullopt);
    }
    message.end(elements);
    batch.append(std::move(message));
  }
}

std::vector<Judged> without(const std::vector<Judged>& all, const std::vector<Judged>& those) {
  std::vector<Judged> rest;
  std::ranges::set_difference(all, those, std::back_inserter(rest));
  return rest;
}

void put_change(Batch& batch, const Map& map, const std::vector<Judged>& now,
                const std::vector<Judged>* before) {
  if (before == nullptr) {
    batch.append(element_message(NFT_MSG_DELSETELEM, 0, map.name));
    put_ranges(batch, NFT_MSG_NEWSETELEM, map, now);
  } else {
    put_ranges(batch, NFT_MSG_DELSETELEM, map, without(*before, now));
    put_ranges(batch, NFT_MSG_NEWSETELEM, map, without(now, *before));
  }
}

}  // namespace

Result<> load_judgements(NetfilterSocket& socket, const JudgementMap& now,
                         const JudgementMap* before) {
  Batch batch;
  put_change(batch, {"judge4", true}, now.v4, before ? &before->v4 : nullptr);
  put_change(batch, {"judge6", false}, now.v6, before ? &before->v6 : nullptr);
  // Acknowledged after the commit; an error in any message before comes instead and means that
  // nothing changed.
  NetlinkMessage last = element_message(NFT_MSG_NEWSETELEM, NLM_F_CREATE | NLM_F_ACK, "judge4");
  last.end(last.begin(NFTA_SET_ELEM_LIST_ELEMENTS));
  batch.append(std::move(last));
  const Bytes bytes = batch.finish();
  const int room = static_cast<int>(2 * bytes.size() + 65536);
  setsockopt(socket.get(), SOL_SOCKET, SO_SNDBUFFORCE, &room, sizeof room);
  if (auto sent = socket.send_batch(bytes, batch.length()); !sent)
    return context("judgement map", sent.error());
  return {};
}

}  // namespace sallyport::host
