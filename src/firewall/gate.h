// SPDX-License-Identifier: Apache-2.0
// One sandbox's firewall state: the policy in force, the node's boundary, and every open flow.
//
// Theory of operation. A policy update has three steps, driven by the supervisor
// (firewall/control.h). prepare() keeps the new policy beside the old one and *holds*: whoever is
// about to decide about something new awaits ready() first. The supervisor then changes nftables in
// one transaction. commit() swaps the policy, asks every open flow to judge itself again under it
// and cuts those that it denies, all before it returns (I4), and releases the held. abort() leaves
// the old policy. So at no time is something new decided by half an update. Until the first commit
// the policy is deny-all (I5).
//
// Everything here belongs to the worker's one thread; there are no locks.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/intrusive/list.hpp>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/result.h"
#include "net/budget.h"
#include "policy/decide.h"
#include "policy/policy.h"

namespace sallyport::firewall {

inline constexpr std::size_t kMaxConnections = 4096;  // open TCP connections of the sandbox
// Hellos and data that waits for a slow reader, all connections together.
inline constexpr std::size_t kMaxBufferedBytes = 32U << 20;

struct Counters {
  std::uint64_t accepted = 0;  // connections seen
  std::uint64_t allowed = 0;
  std::uint64_t denied = 0;  // connections and DNS queries
  std::uint64_t bytes_up = 0;
  std::uint64_t bytes_down = 0;
  std::uint64_t dns_queries = 0;
};

class Gate {
 public:
  // How long a held flow waits for the update to end before it is refused.
  static constexpr std::chrono::seconds kHoldLimit{10};

  // A connection or anything else that lasts. It is in the registry from construction to
  // destruction.
  class Flow : public boost::intrusive::list_base_hook<
                   boost::intrusive::link_mode<boost::intrusive::auto_unlink>> {
   public:
    explicit Flow(Gate& gate) { gate.flows_.push_back(*this); }
    Flow(const Flow&) = delete;
    Flow& operator=(const Flow&) = delete;
    virtual ~Flow() = default;
    // What this policy says about the flow. Empty: nothing was decided yet, so it will be decided
    // under the new one.
    [[nodiscard]] virtual std::optional<policy::Decision> judge(
        const policy::Policy& policy, const policy::Boundary& boundary) const = 0;
    // No byte passes after this returns. May destroy the flow itself, never another one.
    virtual void cut(const policy::Decision& why) = 0;
    // The sandbox ends and takes the flow along; nothing was held against it. As cut() otherwise.
    virtual void end() = 0;
  };

  explicit Gate(boost::asio::io_context& io);

  [[nodiscard]] const policy::Policy& policy() const { return *policy_; }
  [[nodiscard]] const policy::PolicyPtr& policy_ptr() const { return policy_; }
  [[nodiscard]] const policy::Boundary& boundary() const { return boundary_; }
  [[nodiscard]] std::uint64_t version() const { return version_; }  // 0 until the first commit

  void set_boundary(policy::Boundary boundary) { boundary_ = std::move(boundary); }

  [[nodiscard]] bool held() const { return prepared_ != nullptr; }
  // Returns at once, or when the update ended; false after kHoldLimit: refuse. Read policy() only
  // afterwards.
  boost::asio::awaitable<bool> ready();

  struct Applied {
    std::size_t kept = 0;
    std::size_t cut = 0;
  };
  void prepare(std::uint64_t version, policy::PolicyPtr policy);  // replaces one prepared earlier
  [[nodiscard]] Result<Applied> commit(
      std::uint64_t version);  // not_found: no such version is prepared
  [[nodiscard]] Result<> abort(std::uint64_t version);
  // Ends every flow and refuses whatever comes after: the last call.
  void close();

  // Caps of the sandbox: taken before use and given back.
  net::Budget connections{kMaxConnections};
  net::Budget buffered{kMaxBufferedBytes};
  Counters counters;

  [[nodiscard]] bool take_connection() { return connections.take(); }
  void give_connection() { connections.give(); }

 private:
  void release();

  boost::asio::steady_timer hold_;  // cancelled to release whoever awaits ready()
  policy::PolicyPtr policy_;
  policy::PolicyPtr prepared_;
  policy::Boundary boundary_;
  std::uint64_t version_ = 0;
  std::uint64_t prepared_version_ = 0;
  boost::intrusive::list<Flow, boost::intrusive::constant_time_size<false>> flows_;
};

}  // namespace sallyport::firewall
