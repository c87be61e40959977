// SPDX-License-Identifier: Apache-2.0
// A netlink socket to netfilter, of the network namespace of the thread that opened it, for the
// three things that no library of ours covers: dumping and deleting conntrack entries, binding
// NFLOG, filling a large nftables map fast. Closing such a socket after an nftables change waits
// for RCU (10 to 30 ms): keep it where more is to come.
#pragma once

#include <linux/netlink.h>

#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/fd.h"
#include "base/result.h"

namespace sallyport::host {

// One netlink message under construction.
class NetlinkMessage {
 public:
  // `type` = subsystem << 8 | message, `family` and `resource` go into the nfgenmsg header.
  NetlinkMessage(std::uint16_t type, std::uint16_t flags, std::uint8_t family,
                 std::uint16_t resource = 0);

  void put(std::uint16_t attribute, Bytes value);
  void put_text(std::uint16_t attribute, std::string_view value);  // with its final NUL
  void put_u8(std::uint16_t attribute, std::uint8_t value) { put(attribute, {&value, 1}); }
  void put_be16(std::uint16_t attribute, std::uint16_t value);
  void put_be32(std::uint16_t attribute, std::uint32_t value);
  // Attributes put until end() are inside.
  [[nodiscard]] std::size_t begin(std::uint16_t attribute);
  void end(std::size_t nest);

  void append_raw(Bytes attributes);  // finished attributes, aligned, headers included

  void set_sequence(std::uint32_t sequence);
  [[nodiscard]] Bytes bytes();  // final form

 private:
  std::vector<std::uint8_t> data_;
};

// Attribute `wanted` among those in `attributes`, without its header; empty if it is not there.
[[nodiscard]] Bytes find_attribute(Bytes attributes, std::uint16_t wanted);

class NetfilterSocket {
 public:
  [[nodiscard]] static Result<NetfilterSocket> open();
  [[nodiscard]] int get() const { return fd_.get(); }
  [[nodiscard]] Fd take() { return std::move(fd_); }

  // Sends and waits for the acknowledgement.
  [[nodiscard]] Result<> ask(NetlinkMessage& message);
  // Sends a dump request; `each` gets the attributes of every answer.
  [[nodiscard]] Result<> dump(NetlinkMessage& message,
                              const std::function<void(Bytes attributes)>& each);
  // Sends a prepared batch of `messages` messages numbered from 1, the last but one of which asks
  // to be acknowledged; returns the first error.
  [[nodiscard]] Result<> send_batch(Bytes batch, std::uint32_t messages);

 private:
  explicit NetfilterSocket(Fd fd) : fd_(std::move(fd)) {}
  [[nodiscard]] Result<> send(Bytes bytes);
  // Calls `on` for each message received until it says so; its error ends the exchange.
  [[nodiscard]] Result<> receive(
      const std::function<Result<bool>(const nlmsghdr&, Bytes payload)>& on);

  Fd fd_;
  std::uint32_t sequence_ = 0;
};

}  // namespace sallyport::host
