// SPDX-License-Identifier: Apache-2.0
// The firewall worker of one sandbox, put together: listeners, DNS, kernel log, and the
// supervisor's requests (firewall/control.h). Until the first commit everything is refused. If the
// supervisor goes away the policy in force stays; if it goes away inside an update, what is new
// stays held and is refused in time (I5) until it is back.
#pragma once

#include <boost/asio/io_context.hpp>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/fd.h"
#include "base/json.h"
#include "base/result.h"
#include "firewall/audit.h"
#include "firewall/control_channel.h"
#include "firewall/dns_service.h"
#include "firewall/gate.h"
#include "firewall/kernel_log.h"
#include "firewall/tcp_session.h"
#include "net/listener.h"
#include "net/reactor.h"
#include "net/splice.h"
#include "net/task.h"

namespace sallyport::firewall {

// Any may be absent: what belongs to it is then not served.
struct WorkerSockets {
  Fd control, listen, log, tcp4, tcp6;
  DnsService::Sockets dns;
  Fd nflog, conntrack;

  static WorkerSockets inherited();  // by the numbers of control::InheritedFd
};

struct WorkerOptions {
  SessionLimits sessions;
  net::RelayLimits relays;
  std::size_t descriptors = 20000;  // RLIMIT_NOFILE; the caps are made to fit
};

class Worker {
 public:
  Worker(boost::asio::io_context& io, WorkerSockets sockets, const WorkerOptions& options);
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;
  ~Worker();

  void start();

 private:
  // The resolver in use: none before configure, another one after a configure that names others.
  class CurrentResolver final : public Resolver {
   public:
    boost::asio::awaitable<Result<Resolution>> resolve(std::string name, bool want4,
                                                       bool want6) override;
    std::vector<Address> known(const std::string& name) override {
      return current ? current->known(name) : std::vector<Address>();
    }
    boost::asio::awaitable<Result<std::vector<std::uint8_t>>> query(std::string name,
                                                                    std::uint16_t type) override;
    std::shared_ptr<Resolver> current;
  };

  void serve(Fd listener);
  void accepted(Fd connection, const Endpoint& destination);
  void attach(Fd channel);
  net::Task<> serve_channel(std::unique_ptr<ControlChannel> channel);
  net::Task<> accept_supervisors(Fd listen);

  json::object handle(const json::object& request, Fd& passed);
  Result<json::object> configure(const json::object& request, Fd&);
  Result<json::object> prepare(const json::object& request, Fd&);
  Result<json::object> commit(const json::object& request, Fd&);
  Result<json::object> abort(const json::object& request, Fd&);
  Result<json::object> stop(const json::object& request, Fd&);
  Result<json::object> stats(const json::object& request, Fd&);
  Result<json::object> rotate_log(const json::object& request, Fd& passed);
  void tune_listeners();

  boost::asio::io_context& io_;
  WorkerSockets sockets_;
  net::Reactor reactor_;
  Gate gate_;
  Audit audit_;
  CurrentResolver resolver_;
  std::vector<Endpoint> forwarders_;
  net::RelayRoom relays_;
  SessionRoom room_;
  std::vector<Address> listening_;  // our own addresses, whatever configure says
  std::size_t max_connections_;
  net::Clock::time_point started_;
  std::vector<std::unique_ptr<net::Listener>> listeners_;
  std::optional<DnsService> dns_;
  std::optional<KernelLog> kernel_log_;
  ControlChannel* channel_ = nullptr;  // the newest supervisor's
  net::TaskGroup tasks_;               // last: it ends first
};

}  // namespace sallyport::firewall
