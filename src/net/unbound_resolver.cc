// SPDX-License-Identifier: Apache-2.0
// A question becomes a Flight: one libunbound query, any number of waiters. A waiter sleeps on a
// timer of its own, set to its deadline; the flight's end cancels that timer. Flights that all
// waiters left go on until libunbound gives up, and whoever asks again meanwhile joins them, so a
// guest that retries sends nothing new upstream.
//
// libunbound reads no file here: no resolv.conf, hosts, root hints or trust anchor is configured,
// and the context is created after privileges are gone. System calls it makes from our loop, for
// the worker's filter: socket, bind, connect, sendto, sendmsg, recvfrom, recvmsg, read, write,
// setsockopt, getsockopt, fcntl, ioctl(FIONBIO), close, getrandom, getpid, clock_gettime,
// gettimeofday, brk, mmap, munmap, mremap, madvise, futex; Asio adds epoll_ctl and epoll_wait.
#include "net/unbound_resolver.h"

#include <algorithm>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>

#include "dns/message.h"
#include "net/address_cache.h"
#include "net/unbound_events.h"

namespace sallyport {

namespace asio = boost::asio;
using Clock = std::chrono::steady_clock;
using Answer = std::vector<std::uint8_t>;

namespace {

struct Setting {
  const char* option;
  const char* value;
};
// Small, silent, a plain forwarder. What is not here stays at libunbound's default.
constexpr Setting kSettings[] = {
    {"module-config:", "iterator"},  // no validation: the operator's resolver does that
    {"msg-cache-size:", "128k"},
    {"rrset-cache-size:", "256k"},
    {"key-cache-size:", "4k"},
    {"infra-cache-numhosts:", "64"},
    {"infra-host-ttl:",
     "10"},  // a resolver that was down is tried again after 10 s, not 15 minutes
    {"infra-keep-probing:", "yes"},
    {"outgoing-range:", "128"},
    {"outgoing-num-tcp:", "8"},
    {"edns-buffer-size:", "1232"},
    {"cache-max-ttl:", "3600"},
    {"cache-max-negative-ttl:", "30"},  // a name that appears is seen soon
    {"do-not-query-localhost:", "no"},  // systemd-resolved and the like
    {"unblock-lan-zones:", "yes"},      // the operator's resolver knows its reverse zones
    {"qname-minimisation:", "no"},
    {"prefetch:", "no"},
    {"use-syslog:", "no"},
    {"verbosity:", "0"},
    {"tls-cert-bundle:", ""},
};
// Zones that libunbound would answer itself; the operator's resolver decides instead.
constexpr const char* kBuiltInZones[] = {"localhost.", "test.", "invalid.", "onion.", "home.arpa."};

std::string canonical(std::string name) {
  if (name.empty()) return ".";
  if (name.size() > 1 && name.ends_with('.')) name.pop_back();
  for (char& c : name) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return name;
}

std::string key_of(const std::string& name, std::uint16_t type) {
  return name + '/' + std::to_string(type);
}

// What libunbound reports by a bare rcode, as the message it would have been.
Result<Answer> bare_answer(const std::string& name, std::uint16_t type, int rcode) {
  auto message = dns::render_query(0, name, type);
  if (!message) return std::unexpected(message.error());
  Answer answer(message->begin(), message->end());
  answer[2] |= 0x80;                                                                  // QR
  answer[3] = static_cast<std::uint8_t>(0x80U | static_cast<unsigned>(rcode & 0xf));  // RA
  return answer;
}

}  // namespace

class UnboundResolver::Impl : public std::enable_shared_from_this<Impl> {
 public:
  Impl(asio::any_io_executor executor, Options options)
      : options_(options),
        events_(std::move(executor)),
        cache_(options.max_cached, options.max_ttl) {}
  ~Impl() { close(); }

  Result<> open(const std::vector<Endpoint>& forwarders);
  void close();
  asio::awaitable<Result<Resolution>> resolve(std::string name, bool want4, bool want6);
  asio::awaitable<Result<Answer>> query(std::string name, std::uint16_t type);
  std::vector<Address> known(const std::string& name);

 private:
  using Timer = std::shared_ptr<asio::steady_timer>;
  struct Flight {
    std::string name;
    std::uint16_t type = 0;
    std::vector<Timer> waiters;
    std::optional<Result<Answer>> answer;
  };
  using FlightPtr = std::shared_ptr<Flight>;
  // One family of a resolution: known from the cache, or in flight, or not wanted (neither).
  struct Family {
    std::optional<std::vector<Address>> known;
    FlightPtr flight;
    [[nodiscard]] bool settled() const { return !flight || flight->answer.has_value(); }
  };
  struct Call {  // libunbound's handle on a flight
    Impl* owner;
    FlightPtr flight;
  };

  FlightPtr start(const std::string& name, std::uint16_t type);
  Family family(const std::string& name, std::uint16_t type, bool wanted);
  static void settle(Family& family, Resolution& into, std::optional<Error>& failure);
  static void finish(const FlightPtr& flight, Result<Answer> answer);
  static void on_answer(void* call, int rcode, void* packet, int length, int, char*, int);
  asio::awaitable<bool> sleep(Timer timer,
                              Clock::time_point until);  // false: this task was cancelled

  Options options_;
  UnboundEvents events_;
  AddressCache cache_;
  std::unordered_map<std::string, FlightPtr> flights_;
  ub_ctx* context_ = nullptr;
};

Result<> UnboundResolver::Impl::open(const std::vector<Endpoint>& forwarders) {
  if (forwarders.empty()) return fail(Code::invalid, "no resolver is configured");
  context_ = ub_ctx_create_ub_event(events_.base());
  if (context_ == nullptr) return fail(Code::unavailable, "libunbound: cannot create a context");
  ub_ctx_debugout(context_, nullptr);
  for (const Setting& setting : kSettings) {
    if (const int error = ub_ctx_set_option(context_, setting.option, setting.value); error != 0)
      return fail(Code::internal,
                  std::string("libunbound: ") + setting.option + " " + ub_strerror(error));
  }
  for (const Endpoint& forwarder : forwarders) {
    const std::string text = forwarder.address.to_string() + "@" + std::to_string(forwarder.port);
    if (const int error = ub_ctx_set_fwd(context_, text.c_str()); error != 0)
      return fail(Code::invalid, "resolver " + text + ": " + ub_strerror(error));
  }
  for (const char* zone : kBuiltInZones) {
    if (const int error = ub_ctx_zone_remove(context_, zone); error != 0)
      return fail(Code::internal,
                  std::string("libunbound: zone ") + zone + " " + ub_strerror(error));
  }
  return {};
}

void UnboundResolver::Impl::close() {
  if (context_ != nullptr)
    ub_ctx_delete(std::exchange(context_, nullptr));  // calls back for what is under way
  for (auto& [key, flight] : std::exchange(flights_, {}))
    finish(flight, fail(Code::unavailable, "the resolver stopped"));
}

void UnboundResolver::Impl::finish(const FlightPtr& flight, Result<Answer> answer) {
  if (flight->answer) return;
  flight->answer = std::move(answer);
  for (const Timer& waiter : std::exchange(flight->waiters, {})) waiter->cancel();
}

// May run inside ub_resolve_event: an answer from libunbound's cache comes at once.
void UnboundResolver::Impl::on_answer(void* handle, int rcode, void* packet, int length, int, char*,
                                      int) {
  const std::unique_ptr<Call> call(static_cast<Call*>(handle));
  Flight& flight = *call->flight;
  Result<Answer> answer;
  if (rcode == 0 && packet != nullptr && length > 0) {
    const auto* bytes = static_cast<const std::uint8_t*>(packet);
    answer = Answer(bytes, bytes + length);
  } else {
    answer = bare_answer(flight.name, flight.type, rcode == 0 ? 2 : rcode);
  }
  Impl& self = *call->owner;
  if (self.context_ != nullptr) {
    const std::string key = key_of(flight.name, flight.type);
    self.flights_.erase(key);
    if (answer && (flight.type == dns::kA || flight.type == dns::kAaaa)) {
      if (auto found = dns::addresses(*answer); found && found->rcode == 0)
        self.cache_.put(key, std::move(found->addresses), std::chrono::seconds(found->ttl),
                        Clock::now());
    }
  }
  finish(call->flight, std::move(answer));
}

UnboundResolver::Impl::FlightPtr UnboundResolver::Impl::start(const std::string& name,
                                                              std::uint16_t type) {
  const std::string key = key_of(name, type);
  if (const auto found = flights_.find(key); found != flights_.end()) return found->second;
  auto flight = std::make_shared<Flight>(Flight{name, type, {}, {}});
  if (context_ == nullptr) {
    finish(flight, fail(Code::unavailable, "the resolver stopped"));
  } else if (flights_.size() >= options_.max_in_flight) {
    finish(flight, fail(Code::unavailable, "too many lookups under way"));
  } else if (const auto sound = dns::render_query(0, name, type); !sound) {
    finish(
        flight,
        context(name, sound.error()));  // libunbound would keep a record of a name it cannot read
  } else {
    flights_.emplace(key, flight);
    auto call = std::make_unique<Call>(Call{this, flight});
    const int error =
        ub_resolve_event(context_, name.c_str(), type, 1, call.get(), on_answer, nullptr);
    if (error == 0) {
      (void)call.release();  // on_answer took it, or will
    } else {
      flights_.erase(key);
      finish(flight, fail(Code::unavailable, std::string("libunbound: ") + ub_strerror(error)));
    }
  }
  return flight;
}

asio::awaitable<bool> UnboundResolver::Impl::sleep(Timer timer, Clock::time_point until) {
  timer->expires_at(until);
  co_await timer->async_wait(asio::as_tuple(asio::use_awaitable));
  const auto state = co_await asio::this_coro::cancellation_state;
  co_return state.cancelled() == asio::cancellation_type::none;
}

asio::awaitable<Result<Answer>> UnboundResolver::Impl::query(std::string name, std::uint16_t type) {
  const auto self = shared_from_this();
  const FlightPtr flight = start(canonical(std::move(name)), type);
  if (!flight->answer) {
    const auto timer = std::make_shared<asio::steady_timer>(events_.executor());
    const auto deadline = Clock::now() + options_.deadline;
    flight->waiters.push_back(timer);
    while (!flight->answer && Clock::now() < deadline) {
      const bool running = co_await sleep(timer, deadline);
      if (!running) break;
    }
    std::erase(flight->waiters, timer);
  }
  if (!flight->answer) co_return fail(Code::timed_out, flight->name + ": no answer in time");
  co_return *flight->answer;
}

UnboundResolver::Impl::Family UnboundResolver::Impl::family(const std::string& name,
                                                            std::uint16_t type, bool wanted) {
  Family family;
  if (!wanted) return family;
  if (const auto* known = cache_.find(key_of(name, type), Clock::now()))
    family.known = *known;
  else
    family.flight = start(name, type);
  return family;
}

void UnboundResolver::Impl::settle(Family& family, Resolution& into,
                                   std::optional<Error>& failure) {
  if (family.known) {
    into.addresses.insert(into.addresses.end(), family.known->begin(), family.known->end());
  } else if (family.flight && !family.flight->answer) {
    failure = Error{Code::timed_out, family.flight->name + ": no answer in time"};
  } else if (family.flight && !*family.flight->answer) {
    failure = family.flight->answer->error();
  } else if (family.flight) {
    const auto found = dns::addresses(**family.flight->answer);
    if (!found) {
      failure = context(family.flight->name, found.error()).error();
      return;
    }
    into.addresses.insert(into.addresses.end(), found->addresses.begin(), found->addresses.end());
    if (found->rcode != 0) into.rcode = found->rcode;
  }
}

asio::awaitable<Result<Resolver::Resolution>> UnboundResolver::Impl::resolve(std::string name,
                                                                             bool want4,
                                                                             bool want6) {
  const auto self = shared_from_this();
  name = canonical(std::move(name));
  Family six = family(name, dns::kAaaa, want6);
  Family four = family(name, dns::kA, want4);
  const auto gives = [](const Family& family) {
    if (family.known) return true;
    if (!family.flight || !family.flight->answer || !*family.flight->answer) return false;
    const auto found = dns::addresses(**family.flight->answer);
    return found && !found->addresses.empty();
  };
  if (!six.settled() || !four.settled()) {
    const auto timer = std::make_shared<asio::steady_timer>(events_.executor());
    auto deadline = Clock::now() + options_.deadline;
    bool hurried = false;
    for (Family* each : {&six, &four}) {
      if (!each->settled()) each->flight->waiters.push_back(timer);
    }
    while (!six.settled() || !four.settled()) {
      if (!hurried && (gives(six) || gives(four))) {
        hurried = true;
        deadline = std::min(deadline, Clock::now() + options_.second_family_delay);
      }
      if (Clock::now() >= deadline) break;
      const bool running = co_await sleep(timer, deadline);
      if (!running) break;
    }
    for (Family* each : {&six, &four}) {
      if (each->flight) std::erase(each->flight->waiters, timer);
    }
  }
  Resolution resolution;
  std::optional<Error> failure;
  settle(six, resolution, failure);
  settle(four, resolution, failure);
  if (!resolution.addresses.empty()) resolution.rcode = 0;
  if (resolution.addresses.empty() && resolution.rcode == 0 && failure)
    co_return std::unexpected(*failure);
  co_return resolution;
}

// One family that is known will do: a name with addresses of one family only has nothing to cache
// for the other.
std::vector<Address> UnboundResolver::Impl::known(const std::string& name) {
  const std::string key = canonical(name);
  const Clock::time_point now = Clock::now();
  std::vector<Address> out;
  for (const std::uint16_t type : {dns::kAaaa, dns::kA}) {
    if (const auto* found = cache_.find(key_of(key, type), now))
      out.insert(out.end(), found->begin(), found->end());
  }
  return out;
}

UnboundResolver::UnboundResolver(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}
UnboundResolver::~UnboundResolver() { impl_->close(); }

Result<std::unique_ptr<UnboundResolver>> UnboundResolver::make(
    asio::any_io_executor executor, const std::vector<Endpoint>& forwarders, Options options) {
  auto impl = std::make_shared<Impl>(std::move(executor), options);
  if (auto opened = impl->open(forwarders); !opened) return std::unexpected(opened.error());
  return std::unique_ptr<UnboundResolver>(new UnboundResolver(std::move(impl)));
}

Result<std::unique_ptr<UnboundResolver>> UnboundResolver::make(
    asio::any_io_executor executor, const std::vector<Endpoint>& forwarders) {
  return make(std::move(executor), forwarders, Options{});
}

asio::awaitable<Result<Resolver::Resolution>> UnboundResolver::resolve(std::string name, bool want4,
                                                                       bool want6) {
  return impl_->resolve(std::move(name), want4, want6);
}

std::vector<Address> UnboundResolver::known(const std::string& name) { return impl_->known(name); }

asio::awaitable<Result<Answer>> UnboundResolver::query(std::string name, std::uint16_t type) {
  return impl_->query(std::move(name), type);
}

}  // namespace sallyport
