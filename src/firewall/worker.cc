// SPDX-License-Identifier: Apache-2.0
// System calls: accept4, getsockname, fcntl (the rest is in its parts).
#include "firewall/worker.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <exception>
#include <utility>

#include "base/log.h"
#include "firewall/control.h"
#include "net/unbound_resolver.h"
#include "policy/policy_json.h"

namespace sallyport::firewall {

namespace asio = boost::asio;

namespace {

void log_failure(std::exception_ptr failure) {
  try {
    std::rethrow_exception(std::move(failure));
  } catch (const std::exception& error) {
    log::error("a session ended by an exception", {{"what", error.what()}});
  }
}

Fd inherited_fd(int number) { return ::fcntl(number, F_GETFD) >= 0 ? Fd(number) : Fd(); }

void note_address(std::vector<Address>& out, const Fd& socket) {
  sockaddr_storage address{};
  socklen_t length = sizeof address;
  if (!socket || ::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&address), &length) != 0)
    return;
  if (const auto endpoint =
          Endpoint::from_sockaddr(reinterpret_cast<const sockaddr*>(&address), length))
    out.push_back(endpoint->address);
}

std::string_view name_of(Code code) {
  switch (code) {
    case Code::invalid:
      return "invalid";
    case Code::denied:
      return "denied";
    case Code::not_found:
      return "not_found";
    case Code::conflict:
      return "conflict";
    case Code::timed_out:
      return "timed_out";
    case Code::unavailable:
      return "unavailable";
    case Code::internal:
      return "internal";
  }
  return "internal";
}

// ---- reading requests

Result<std::uint64_t> number(const json::object& from, std::string_view key) {
  const auto* value = from.if_contains(key);
  if (value && value->is_int64() && value->get_int64() >= 0)
    return static_cast<std::uint64_t>(value->get_int64());
  if (value && value->is_uint64()) return value->get_uint64();
  return fail(Code::invalid, fmt::format("'{}' must be a number", key));
}

// Absent is empty.
template <class T, class ParseOne>
Result<std::vector<T>> list(const json::object& from, std::string_view key, ParseOne parse_one) {
  std::vector<T> out;
  const auto* value = from.if_contains(key);
  if (!value) return out;
  if (!value->is_array()) return fail(Code::invalid, fmt::format("'{}' must be a list", key));
  for (const auto& item : value->get_array()) {
    const auto parsed =
        item.is_string() ? parse_one(std::string_view(item.get_string())) : std::nullopt;
    if (!parsed)
      return fail(Code::invalid, fmt::format("'{}' has an entry that cannot be read", key));
    out.push_back(*parsed);
  }
  return out;
}

std::optional<Endpoint> parse_forwarder(std::string_view text) {
  if (const auto address = Address::parse(text)) return Endpoint{*address, 53};
  return Endpoint::parse(text);
}

Result<policy::Boundary> parse_boundary(const json::object& request) {
  const auto* value = request.if_contains("boundary");
  if (!value || !value->is_object()) return fail(Code::invalid, "'boundary' must be an object");
  auto closed = list<Cidr>(value->get_object(), "closed", Cidr::parse);
  if (!closed) return std::unexpected(closed.error());
  auto opened = list<Cidr>(value->get_object(), "opened", Cidr::parse);
  if (!opened) return std::unexpected(opened.error());
  auto attached = list<Cidr>(value->get_object(), "attached", Cidr::parse);
  if (!attached) return std::unexpected(attached.error());
  return policy::Boundary(std::move(*closed), std::move(*opened), std::move(*attached));
}

constexpr std::size_t kSpareDescriptors = 128;  // control, logs, DNS, resolver

std::size_t pipes_for(std::size_t descriptors) {
  return std::clamp<std::size_t>(descriptors / 64, 2, 64);
}

std::size_t connections_for(std::size_t descriptors) {
  const std::size_t others = kSpareDescriptors + 2 * pipes_for(descriptors);
  return descriptors > others + 2 ? std::min(kMaxConnections, (descriptors - others) / 2) : 1;
}

net::RelayLimits fitted(net::RelayLimits limits, std::size_t descriptors) {
  limits.pipes = std::min(limits.pipes, pipes_for(descriptors));
  return limits;
}

}  // namespace

WorkerSockets WorkerSockets::inherited() {
  WorkerSockets out;
  out.control = inherited_fd(control::kControl);
  out.listen = inherited_fd(control::kListen);
  out.log = inherited_fd(control::kLog);
  out.tcp4 = inherited_fd(control::kTcp4);
  out.tcp6 = inherited_fd(control::kTcp6);
  out.dns.udp4 = inherited_fd(control::kDnsUdp4);
  out.dns.udp6 = inherited_fd(control::kDnsUdp6);
  out.dns.tcp4 = inherited_fd(control::kDnsTcp4);
  out.dns.tcp6 = inherited_fd(control::kDnsTcp6);
  out.nflog = inherited_fd(control::kNflog);
  out.conntrack = inherited_fd(control::kConntrack);
  return out;
}

Worker::Worker(asio::io_context& io, WorkerSockets sockets, const WorkerOptions& options)
    : io_(io),
      sockets_(std::move(sockets)),
      reactor_(io),
      gate_(io),
      audit_(std::move(sockets_.log)),
      relays_(reactor_, gate_.buffered, fitted(options.relays, options.descriptors)),
      room_{reactor_, gate_, audit_, resolver_, relays_, options.sessions, {}},
      max_connections_(connections_for(options.descriptors)),
      started_(net::Clock::now()),
      tasks_(log_failure) {
  gate_.connections.set_limit(max_connections_);
  for (const Fd* socket : {&sockets_.tcp4, &sockets_.tcp6, &sockets_.dns.udp4, &sockets_.dns.udp6,
                           &sockets_.dns.tcp4, &sockets_.dns.tcp6})
    note_address(listening_, *socket);
  room_.own = listening_;
}

Worker::~Worker() = default;

void Worker::start() {
  reactor_.at_end_of_turn([this] { audit_.flush(); });
  audit_.collect([this] { reactor_.want_end_of_turn(); });
  tasks_.spawn(relays_.sweep());
  serve(std::move(sockets_.tcp4));
  serve(std::move(sockets_.tcp6));
  dns_.emplace(io_.get_executor(), std::move(sockets_.dns), resolver_, gate_, audit_);
  dns_->start();
  kernel_log_.emplace(io_.get_executor(), std::move(sockets_.nflog), std::move(sockets_.conntrack),
                      gate_, audit_);
  kernel_log_->start();
  if (sockets_.listen) tasks_.spawn(accept_supervisors(std::move(sockets_.listen)));
  if (sockets_.control) attach(std::move(sockets_.control));
}

// ---- connections

void Worker::serve(Fd listener) {
  if (!listener) return;
  listeners_.push_back(std::make_unique<net::Listener>(
      reactor_, std::move(listener), [this](Fd connection, const Endpoint& destination) {
        accepted(std::move(connection), destination);
      }));
  tasks_.spawn(listeners_.back()->run());
}

void Worker::accepted(Fd connection, const Endpoint& destination) {
  ++gate_.counters.accepted;
  if (!gate_.connections.take()) {
    ++gate_.counters.denied;
    net::Socket(std::move(connection)).reset();
    AuditRecord record{.policy_version = gate_.version(),
                       .protocol = "tcp",
                       .name = {},
                       .destination = destination,
                       .dialled = {},
                       .reason = "too_many_connections",
                       .entry = {},
                       .detail = {}};
    audit_.write(record);
    return;
  }
  tasks_.spawn(
      TcpSession::serve(std::make_unique<TcpSession>(room_, std::move(connection), destination)));
}

// A client that is silent may be waiting for its server or for our refusal; only where neither can
// be, the kernel may hold connections back until they carry bytes.
void Worker::tune_listeners() {
  const policy::Policy& policy = gate_.policy();
  const bool only_names = policy.mode == policy::Mode::custom && !policy.domains.empty() &&
                          !policy.domain_index.catch_all();
  for (const auto& listener : listeners_) listener->announce_with_data(only_names);
}

asio::awaitable<Result<Resolver::Resolution>> Worker::CurrentResolver::resolve(std::string name,
                                                                               bool want4,
                                                                               bool want6) {
  const auto resolver = current;  // outlives the lookup even if configure brings another
  if (!resolver) co_return fail(Code::unavailable, "no resolver is configured");
  auto lookup = resolver->resolve(std::move(name), want4, want6);
  co_return co_await std::move(lookup);
}

asio::awaitable<Result<std::vector<std::uint8_t>>> Worker::CurrentResolver::query(
    std::string name, std::uint16_t type) {
  const auto resolver = current;
  if (!resolver) co_return fail(Code::unavailable, "no resolver is configured");
  auto lookup = resolver->query(std::move(name), type);
  co_return co_await std::move(lookup);
}

// ---- the supervisor

void Worker::attach(Fd channel) {
  if (channel_) channel_->close();  // the newest wins
  auto fresh = std::make_unique<ControlChannel>(
      reactor_, std::move(channel),
      [this](const json::object& request, Fd& passed) { return handle(request, passed); });
  channel_ = fresh.get();
  tasks_.spawn(serve_channel(std::move(fresh)));
}

net::Task<> Worker::serve_channel(std::unique_ptr<ControlChannel> channel) {
  co_await channel->run();
  if (channel_ == channel.get()) channel_ = nullptr;
}

net::Task<> Worker::accept_supervisors(Fd listen) {
  net::Bell bell(reactor_);
  net::Socket socket(std::move(listen));
  if (!socket.watch(bell, EPOLLIN)) co_return;
  while (true) {
    Fd channel(::accept4(socket.fd(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (channel)
      attach(std::move(channel));
    else
      co_await bell.wait();
  }
}

json::object Worker::handle(const json::object& request, Fd& passed) {
  struct Operation {
    std::string_view name;
    Result<json::object> (Worker::*run)(const json::object&, Fd&);
  };
  static constexpr std::array<Operation, 7> kOperations{{{"configure", &Worker::configure},
                                                         {"prepare", &Worker::prepare},
                                                         {"commit", &Worker::commit},
                                                         {"abort", &Worker::abort},
                                                         {"stop", &Worker::stop},
                                                         {"stats", &Worker::stats},
                                                         {"rotate_log", &Worker::rotate_log}}};
  const auto* op = request.if_contains("op");
  const std::string_view wanted =
      op && op->is_string() ? std::string_view(op->get_string()) : std::string_view();
  const auto* operation = std::ranges::find(kOperations, wanted, &Operation::name);
  auto result = operation == kOperations.end()
                    ? Result<json::object>(fail(Code::invalid, "unknown operation"))
                    : (this->*operation->run)(request, passed);
  if (!result)
    return {
        {"ok", false},
        {"error", {{"code", name_of(result.error().code)}, {"message", result.error().message}}}};
  (*result)["ok"] = true;
  return std::move(*result);
}

Result<json::object> Worker::configure(const json::object& request, Fd&) {
  const auto* sandbox = request.if_contains("sandbox");
  if (!sandbox || !sandbox->is_string()) return fail(Code::invalid, "'sandbox' must be a string");
  auto boundary = parse_boundary(request);
  if (!boundary) return std::unexpected(boundary.error());
  auto forwarders = list<Endpoint>(request, "resolvers", parse_forwarder);
  if (!forwarders) return std::unexpected(forwarders.error());
  auto guest = list<Address>(request, "guest", Address::parse);
  if (!guest) return std::unexpected(guest.error());

  if (*forwarders != forwarders_) {
    std::shared_ptr<Resolver> fresh;
    if (!forwarders->empty()) {
      auto made = UnboundResolver::make(io_.get_executor(), *forwarders);
      if (!made) return context("resolver", made.error());
      fresh = std::move(*made);
    }
    resolver_.current = std::move(fresh);
    forwarders_ = std::move(*forwarders);
  }
  if (const auto* limits = request.if_contains("limits"); limits && limits->is_object()) {
    if (const auto connections = number(limits->get_object(), "connections"))
      gate_.connections.set_limit(std::min<std::size_t>(*connections, max_connections_));
    if (const auto log_bytes = number(limits->get_object(), "log_bytes"))
      audit_.limit(*log_bytes, [this](std::uint64_t bytes) {
        if (channel_) channel_->send({{"event", "log_full"}, {"bytes", bytes}});
      });
  }
  audit_.name_sandbox(std::string(sandbox->get_string()));
  gate_.set_boundary(std::move(*boundary));
  room_.own = listening_;
  room_.own.insert(room_.own.end(), guest->begin(), guest->end());
  return json::object();
}

Result<json::object> Worker::prepare(const json::object& request, Fd&) {
  const auto version = number(request, "version");
  if (!version) return std::unexpected(version.error());
  const auto* value = request.if_contains("policy");
  if (!value) return fail(Code::invalid, "'policy' is missing");
  auto policy = policy::policy_from_json(*value);
  if (!policy) return std::unexpected(policy.error());
  for (const policy::DomainEntry& domain : (*policy)->domains) {
    if (!domain.rules.empty())
      return fail(Code::invalid,
                  fmt::format("rules on {}: handling is not available yet", domain.pattern));
  }
  gate_.prepare(*version, std::move(*policy));
  return json::object{{"version", *version}};
}

Result<json::object> Worker::commit(const json::object& request, Fd&) {
  const auto version = number(request, "version");
  if (!version) return std::unexpected(version.error());
  const auto applied = gate_.commit(*version);
  if (!applied) return std::unexpected(applied.error());
  tune_listeners();
  return json::object{{"version", *version}, {"kept", applied->kept}, {"cut", applied->cut}};
}

Result<json::object> Worker::abort(const json::object& request, Fd&) {
  const auto version = number(request, "version");
  if (!version) return std::unexpected(version.error());
  if (const auto done = gate_.abort(*version); !done) return std::unexpected(done.error());
  return json::object{{"version", gate_.version()}};
}

Result<json::object> Worker::stop(const json::object&, Fd&) {
  gate_.close();
  return json::object();
}

Result<json::object> Worker::stats(const json::object&, Fd&) {
  const Counters& counters = gate_.counters;
  const auto up =
      std::chrono::duration_cast<std::chrono::milliseconds>(net::Clock::now() - started_).count();
  return json::object{{"open", gate_.connections.used()},    {"accepted", counters.accepted},
                      {"allowed", counters.allowed},         {"denied", counters.denied},
                      {"bytes_up", counters.bytes_up},       {"bytes_down", counters.bytes_down},
                      {"dns_queries", counters.dns_queries}, {"buffered", gate_.buffered.used()},
                      {"log_lines", audit_.lines()},         {"log_dropped", audit_.dropped()},
                      {"version", gate_.version()},          {"uptime_ms", up}};
}

Result<json::object> Worker::rotate_log(const json::object&, Fd& passed) {
  if (!passed) return fail(Code::invalid, "no descriptor came with rotate_log");
  audit_.rotate(std::move(passed));
  return json::object();
}

}  // namespace sallyport::firewall
