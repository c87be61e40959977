// SPDX-License-Identifier: Apache-2.0
// A name server for tests: answers from a function, over UDP and TCP on one loopback port, in a
// thread of its own. Keeps count of what it was asked, so that a test can say that a query never
// came.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "base/address.h"
#include "base/fd.h"

namespace sallyport::test {

std::string wire_name(std::string_view name);  // "a.b" or "a.b."
std::string address_data(std::string_view address);
std::string soa_data(std::uint32_t minimum);

struct DnsRecord {
  std::string name;
  std::uint16_t type;
  std::uint32_t ttl;
  std::string data;  // as on the wire
};
struct DnsReply {
  int rcode = 0;
  std::vector<DnsRecord> answers = {};
  std::vector<DnsRecord> authority = {};
  bool silent = false;
};
DnsRecord a_record(std::string_view name, std::string_view address,
                   std::uint32_t ttl = 60);  // A or AAAA
DnsRecord cname_record(std::string_view name, std::string_view target, std::uint32_t ttl = 60);
DnsReply no_data(std::string_view zone);
std::string record_bytes(const DnsRecord& record);
// A whole answer without EDNS, as a resolver library gives it.
std::string answer_message(const std::string& name, std::uint16_t type, const DnsReply& reply);

class DnsAuthority {
 public:
  // `number` counts the questions for this (name, type), from 0.
  using Zone =
      std::function<DnsReply(const std::string& name, std::uint16_t type, unsigned number)>;

  explicit DnsAuthority(Zone zone, const char* address = "127.0.0.1", std::uint16_t port = 0);
  ~DnsAuthority();

  [[nodiscard]] Endpoint endpoint() const { return endpoint_; }
  [[nodiscard]] unsigned asked(const std::string& name, std::uint16_t type) const;
  [[nodiscard]] unsigned asked() const { return total_; }
  [[nodiscard]] unsigned over_tcp() const { return tcp_; }

 private:
  void serve();
  void serve_stream(int fd);
  std::string answer(std::string_view question, bool udp);  // empty: silence

  Zone zone_;
  Fd udp_, tcp_listener_, wake_;
  Endpoint endpoint_;
  mutable std::mutex mutex_;
  std::map<std::pair<std::string, std::uint16_t>, unsigned> counts_;
  std::atomic<unsigned> total_ = 0, tcp_ = 0;
  std::thread thread_;
};

}  // namespace sallyport::test
