// SPDX-License-Identifier: Apache-2.0
// One TCP connection of the sandbox, from accept to its line in the egress log.
//
// Theory of operation (ARCHITECTURE.md, one connection step by step). The client's first bytes are
// read until they name a host or are known not to (opening.h). decide() judges them. A denied
// client is told so in its own protocol (refusal.h). For an allowed one the name is resolved here,
// on the host's side, each address is judged by decide_dial() and only such an address is dialled,
// on the port that the guest chose (I2, R-014, R-015); only a connection without a readable name
// that the policy lets through goes to the address the guest chose (D-08). The bytes read so far
// are sent on unchanged, then both directions are relayed (net/splice.h).
// The session is a Flow of the gate from its first moment: an update may cut it at any await (I4),
// after which both sockets are closed and the coroutine only has to notice.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/address.h"
#include "base/fd.h"
#include "firewall/audit.h"
#include "firewall/gate.h"
#include "firewall/opening.h"
#include "net/dial.h"
#include "net/reactor.h"
#include "net/resolver.h"
#include "net/splice.h"
#include "net/task.h"

namespace sallyport::firewall {

struct SessionLimits {
  OpeningLimits opening;
  net::DialOptions dial;
  std::chrono::milliseconds upstream_answer{10000};  // to a Postgres SSLRequest
};

// What all sessions of a worker share; outlives them.
struct SessionRoom {
  net::Reactor& reactor;
  Gate& gate;
  Audit& audit;
  Resolver& resolver;
  net::RelayRoom& relays;
  SessionLimits limits;
  std::vector<Address> own;  // never dialled: our listeners, the router, the guest itself
};

class TcpSession final : public Gate::Flow {
 public:
  TcpSession(SessionRoom& room, Fd client, const Endpoint& destination);
  ~TcpSession() override;

  static net::Task<> serve(std::unique_ptr<TcpSession> session) { co_await session->run(); }

  [[nodiscard]] std::optional<policy::Decision> judge(
      const policy::Policy& policy, const policy::Boundary& boundary) const override;
  void cut(const policy::Decision& why) override;
  void end() override;

 private:
  enum class State { undecided, admitted, ended };

  net::Task<> run();
  net::Task<bool> wait_for_update();  // false: refused
  net::Task<> refuse(policy::Decision decision, std::string detail = {});
  net::Task<> give_up(std::string_view reason, std::string detail, bool tell);
  net::Task<bool> find_addresses(const policy::Decision& decision, std::vector<Endpoint>& out);
  std::optional<policy::Decision> choose(const std::vector<Address>& addresses,
                                         std::vector<Endpoint>& out) const;
  net::Task<bool> ask_for_tls();
  [[nodiscard]] std::string last_words(std::string_view reason) const;
  [[nodiscard]] bool is_own(const Address& address) const;
  void write_line();

  SessionRoom& room_;
  net::Bell bell_;
  net::Socket client_;
  std::unique_ptr<net::Socket> upstream_;
  policy::Flow flow_;
  State state_ = State::undecided;
  bool by_address_ = false;  // the guest's own destination was dialled
  std::vector<Endpoint>
      trying_;  // what is being dialled for a name; record_.dialled says which one answered
  bool line_due_ = true;
  Opening opening_;
  AuditRecord record_;
  net::Clock::time_point begun_;
};

}  // namespace sallyport::firewall
