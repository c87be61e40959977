// SPDX-License-Identifier: Apache-2.0
// System calls: sendto, recvfrom, close (the rest is in net/ and in the files it is made of).
#include "firewall/tcp_session.h"

#include <fmt/format.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <span>
#include <utility>

#include "firewall/refusal.h"
#include "net/await_asio.h"

namespace sallyport::firewall {

using policy::Access;
using policy::Decision;
using policy::Protocol;
using policy::Reason;

TcpSession::TcpSession(SessionRoom& room, Fd client, const Endpoint& destination)
    : Flow(room.gate),
      room_(room),
      bell_(room.reactor),
      client_(std::move(client)),
      begun_(net::Clock::now()) {
  flow_.destination = destination;
  record_.protocol = "tcp";
  record_.destination = destination;
}

TcpSession::~TcpSession() {
  room_.gate.buffered.give(opening_.bytes.size());
  room_.gate.connections.give();
  write_line();
}

net::Task<> TcpSession::run() {
  if (room_.gate.held() && !co_await wait_for_update()) co_return;
  // What would be said if no name is ever read: it tells whether silence means anything (D-08,
  //
  const Decision nameless = decide(room_.gate.policy(), room_.gate.boundary(), flow_);
  const bool by_range =
      nameless.access == Access::allow && nameless.reason != Reason::allowed_domain;
  if (!by_range) {
    const bool patient =
        nameless.access == Access::deny && !room_.gate.policy().denies_everything();
    OpeningReader reader(bell_, client_, room_.gate.buffered, room_.limits.opening, patient);
    opening_ = co_await reader.run();
    flow_.protocol = opening_.protocol;
    flow_.name = opening_.name;
    record_.name = opening_.name;
    if (opening_.protocol == Protocol::tls) record_.protocol = "tls";
    if (opening_.protocol == Protocol::postgres || opening_.kind == Opening::Kind::postgres_clear)
      record_.protocol = "postgres";
    switch (opening_.kind) {
      case Opening::Kind::cancelled:
        co_return;
      case Opening::Kind::closed:
        co_return co_await give_up("client_closed", {}, false);
      case Opening::Kind::full:
        co_return co_await give_up("buffer_limit", {}, false);
      case Opening::Kind::late:
        co_return co_await give_up("hello_timeout", {}, false);
      case Opening::Kind::malformed:
        co_return co_await give_up("malformed_hello", std::string(opening_.why), true);
      default:
        break;
    }
    if (room_.gate.held() && !co_await wait_for_update()) co_return;
  }

  const Decision decision = decide(room_.gate.policy(), room_.gate.boundary(), flow_);
  if (decision.access == Access::deny) co_return co_await refuse(decision);
  if (decision.domain &&
      !decision.domain->rules.empty())  // prepare refuses such a policy; never half-applied
    co_return co_await refuse(
        {.access = Access::deny, .reason = decision.reason, .entry = decision.entry},
        "the domain has rules, and handling is not available yet");
  state_ = State::admitted;
  by_address_ = decision.by_address;
  record_.policy_version = room_.gate.version();
  record_.verdict = Access::allow;
  record_.reason = to_string(decision.reason);
  record_.entry = decision.entry;
  if (decision.rules_ignored)
    record_.detail = "rules of the domain do not apply to this connection";

  std::vector<Endpoint> endpoints;
  if (!co_await find_addresses(decision, endpoints)) co_return;

  net::DialOptions options = room_.limits.dial;
  options.speaks_first = !opening_.bytes.empty();
  trying_ = endpoints;
  auto dialled = co_await net::dial(bell_, std::move(endpoints), options);
  if (bell_.cancelled()) co_return;
  if (!dialled)
    co_return co_await give_up("upstream_unreachable", std::move(dialled.error().message), false);
  upstream_ = std::move(dialled->socket);
  record_.dialled = dialled->endpoint;
  if (flow_.protocol == Protocol::postgres && !co_await ask_for_tls()) co_return;

  ++room_.gate.counters.allowed;
  room_.gate.buffered.give(opening_.bytes.size());
  net::Relay relay(room_.relays, bell_, client_, *upstream_, std::exchange(opening_.bytes, {}));
  const auto outcome = co_await relay.run();
  state_ = State::ended;
  record_.bytes_up = outcome.up;
  record_.bytes_down = outcome.down;
  switch (outcome.end) {
    case net::Relay::End::client_reset:
      record_.detail = "reset by the client";
      break;
    case net::Relay::End::upstream_reset:
      record_.detail = "reset by the upstream";
      break;
    case net::Relay::End::half_closed:
      record_.detail = "closed by one side only, then silent";
      break;
    case net::Relay::End::idle:
      record_.detail = "idle for too long";
      break;
    case net::Relay::End::done:
    case net::Relay::End::cancelled:
      break;
  }
}

// An update is being applied: old policy or new, never in between.
net::Task<bool> TcpSession::wait_for_update() {
  const bool ready = co_await net::await_asio(room_.reactor, room_.gate.ready());
  if (bell_.cancelled()) co_return false;
  if (!ready) co_await give_up("update_pending", "a policy update did not end in time", true);
  co_return ready;
}

// The endpoints to dial, judged. False: the session was ended.
net::Task<bool> TcpSession::find_addresses(const Decision& decision, std::vector<Endpoint>& out) {
  if (decision.by_address) {
    if (is_own(flow_.destination.address)) {
      co_await refuse({.access = Access::deny, .reason = Reason::boundary},
                      "an address of the firewall itself");
      co_return false;
    }
    out.push_back(flow_.destination);
    co_return true;
  }
  auto addresses = room_.resolver.known(*flow_.name);
  if (addresses.empty()) {
    auto found =
        co_await net::await_asio(room_.reactor, room_.resolver.resolve(*flow_.name, true, true));
    if (bell_.cancelled()) co_return false;
    if (!found) {
      co_await give_up("resolve_failed", std::move(found.error().message), false);
      co_return false;
    }
    if (found->addresses.empty()) {
      co_await give_up("name_not_found", fmt::format("no address, DNS rcode {}", found->rcode),
                       false);
      co_return false;
    }
    addresses = std::move(found->addresses);
  }
  if (auto denied = choose(addresses, out)) {
    co_await refuse(std::move(*denied),
                    fmt::format("{} resolves to {}", *flow_.name, addresses.front().to_string()));
    co_return false;
  }
  co_return true;
}

// Those that may be dialled, of the guest's own family first: that is the one it can judge the
// latency of. If there is none: why.
std::optional<Decision> TcpSession::choose(const std::vector<Address>& addresses,
                                           std::vector<Endpoint>& out) const {
  std::optional<Decision> denied;
  for (const bool own_family : {true, false}) {
    for (const Address& address : addresses) {
      if ((address.is_v4() == flow_.destination.address.is_v4()) != own_family) continue;
      Decision judged = decide_dial(room_.gate.policy(), room_.gate.boundary(), address);
      if (is_own(address)) judged = {.access = Access::deny, .reason = Reason::boundary};
      if (judged.access == Access::allow)
        out.push_back({address, flow_.destination.port});
      else if (!denied)
        denied = std::move(judged);
    }
  }
  if (!out.empty()) return std::nullopt;
  return denied;
}

// Asks the Postgres server for TLS in our turn; without its yes nothing goes there.
net::Task<bool> TcpSession::ask_for_tls() {
  const std::string_view request = postgres::kSslRequest;
  net::Timer deadline(bell_);
  deadline.start(room_.limits.upstream_answer);
  std::array<std::uint8_t, 64> answer;
  std::size_t size = 0;
  auto said = postgres::UpstreamAnswer::need_more;
  if (::send(upstream_->fd(), request.data(), request.size(), MSG_NOSIGNAL) ==
      static_cast<ssize_t>(request.size())) {
    while (said == postgres::UpstreamAnswer::need_more && size < answer.size()) {
      const ssize_t got = ::recv(upstream_->fd(), answer.data() + size, answer.size() - size, 0);
      if (got > 0) {
        size += static_cast<std::size_t>(got);
        said = postgres::read_upstream_answer(Bytes(answer).first(size));
        continue;
      }
      if (got == 0 || (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR)) break;
      upstream_->not_readable();
      co_await bell_.wait();
      if (bell_.cancelled()) co_return false;
      if (deadline.expired()) break;
    }
  }
  if (said == postgres::UpstreamAnswer::tls) co_return true;
  co_await give_up("upstream_refused_tls", "the Postgres server did not agree to TLS", true);
  co_return false;
}

net::Task<> TcpSession::refuse(Decision decision, std::string detail) {
  state_ = State::ended;
  ++room_.gate.counters.denied;
  record_.policy_version = room_.gate.version();
  record_.verdict = Access::deny;
  record_.reason = to_string(decision.reason);
  record_.entry = std::move(decision.entry);
  record_.detail = std::move(detail);
  if (record_.detail.empty() && opening_.kind == Opening::Kind::http)
    record_.detail = "plain HTTP carries no name";
  std::string words = last_words(record_.reason);
  write_line();
  co_await say_and_close(bell_, client_, std::move(words));
}

// It ends although the policy said nothing against it. The verdict stays what the policy said, if
// it was asked.
net::Task<> TcpSession::give_up(std::string_view reason, std::string detail, bool tell) {
  if (state_ == State::undecided) {
    ++room_.gate.counters.denied;
    record_.policy_version = room_.gate.version();
  }
  state_ = State::ended;
  record_.reason = reason;
  record_.detail = std::move(detail);
  std::string words = tell ? last_words(reason) : std::string();
  write_line();
  if (upstream_) upstream_->reset();
  co_await say_and_close(bell_, client_, std::move(words));
}

// What this client understands (D-06, R-012); empty: an RST.
std::string TcpSession::last_words(std::string_view reason) const {
  if (opening_.protocol != Protocol::other) {
    const auto alert = state_ == State::ended && record_.verdict == Access::allow
                           ? tls::Alert::internal_error
                           : opening_.alert;
    return tls::render_alert(alert, opening_.alert_version);
  }
  if (opening_.kind == Opening::Kind::postgres_clear)
    return postgres::render_error(postgres::kInvalidAuthorization,
                                  fmt::format("Sallyport refused this connection: {}", reason));
  if (opening_.kind == Opening::Kind::http) return render_forbidden(reason);
  return {};
}

std::optional<Decision> TcpSession::judge(const policy::Policy& policy,
                                          const policy::Boundary& boundary) const {
  if (state_ != State::admitted) return std::nullopt;
  Decision decision = decide(policy, boundary, flow_);
  if (decision.access == Access::deny) return decision;
  if (decision.domain && !decision.domain->rules.empty())
    return Decision{.access = Access::deny, .reason = decision.reason, .entry = decision.entry};
  // Admitted by name, its address must be one that may be dialled for a name. Admitted by address,
  // the policy must still admit by address: a name that came with it was never checked against that
  // address (I2).
  if (by_address_ && !decision.by_address)
    return Decision{.access = Access::deny, .reason = Reason::address_not_allowed};
  if (by_address_) return decision;
  // Before one of them answered, attempts at all of them may be under way or still to come.
  const auto dialled = record_.dialled ? std::span<const Endpoint>(&*record_.dialled, 1)
                                       : std::span<const Endpoint>(trying_);
  for (const Endpoint& endpoint : dialled) {
    Decision dial = decide_dial(policy, boundary, endpoint.address);
    if (dial.access == Access::deny) return dial;
    // By address now, and that is another address than the one we are connected to.
    if (decision.by_address && !dial.by_address)
      return Decision{.access = Access::deny, .reason = Reason::address_not_allowed};
  }
  return decision;
}

void TcpSession::cut(const Decision& why) {
  client_.reset();
  if (upstream_) upstream_->reset();
  state_ = State::ended;
  record_.verdict = Access::deny;
  record_.detail = fmt::format(
      "cut by policy version {}, allowed before by {}", room_.gate.version(),
      record_.entry.empty() ? std::string_view("its address") : std::string_view(record_.entry));
  record_.policy_version = room_.gate.version();
  record_.reason = to_string(why.reason);
  record_.entry = why.entry;
  bell_.cancel();
}

void TcpSession::end() {
  client_.reset();
  if (upstream_) upstream_->reset();
  if (state_ == State::undecided) {
    record_.policy_version = room_.gate.version();
    record_.reason = "sandbox_stopped";
  }
  if (state_ != State::ended) record_.detail = "the sandbox stopped";
  state_ = State::ended;
  bell_.cancel();
}

bool TcpSession::is_own(const Address& address) const {
  return std::ranges::find(room_.own, address) != room_.own.end();
}

void TcpSession::write_line() {
  if (!std::exchange(line_due_, false)) return;
  record_.duration =
      std::chrono::duration_cast<std::chrono::milliseconds>(net::Clock::now() - begun_);
  room_.gate.counters.bytes_up += record_.bytes_up;
  room_.gate.counters.bytes_down += record_.bytes_down;
  room_.audit.write(record_);
}

}  // namespace sallyport::firewall
