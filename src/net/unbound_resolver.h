// SPDX-License-Identifier: Apache-2.0
// The resolver of a firewall worker: libunbound as a forwarder to the operator's resolvers, driven
// by the worker's own event loop (no thread, no pipe, no file). Adds what a firewall needs: a
// deadline on every lookup, one upstream lookup for identical questions in flight, a bounded
// address cache that honours TTL, and TTL 0 never reused.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <chrono>
#include <cstddef>
#include <memory>
#include <vector>

#include "base/address.h"
#include "base/result.h"
#include "net/resolver.h"

namespace sallyport {

class UnboundResolver final : public Resolver {
 public:
  struct Options {
    std::chrono::milliseconds deadline{
        4500};  // just under the five seconds after which stub resolvers ask again
    std::chrono::milliseconds second_family_delay{
        50};  // how long addresses of one family wait for the other (RFC 8305 s3)
    std::size_t max_in_flight = 1024;  // distinct questions
    std::size_t max_cached = 4096;     // distinct (name, family)
    std::chrono::seconds max_ttl{3600};
  };

  // `forwarders`: at least one. Use from the thread of `executor` only.
  static Result<std::unique_ptr<UnboundResolver>> make(boost::asio::any_io_executor executor,
                                                       const std::vector<Endpoint>& forwarders,
                                                       Options options);
  static Result<std::unique_ptr<UnboundResolver>> make(boost::asio::any_io_executor executor,
                                                       const std::vector<Endpoint>& forwarders);
  ~UnboundResolver() override;
  UnboundResolver(const UnboundResolver&) = delete;
  UnboundResolver& operator=(const UnboundResolver&) = delete;

  boost::asio::awaitable<Result<Resolution>> resolve(std::string name, bool want4,
                                                     bool want6) override;
  std::vector<Address> known(const std::string& name) override;
  boost::asio::awaitable<Result<std::vector<std::uint8_t>>> query(std::string name,
                                                                  std::uint16_t type) override;

 private:
  class Impl;
  explicit UnboundResolver(std::shared_ptr<Impl> impl);
  std::shared_ptr<Impl> impl_;
};

}  // namespace sallyport
