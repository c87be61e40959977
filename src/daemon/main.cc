// SPDX-License-Identifier: Apache-2.0
// sandboxd: the one privileged process. Builds the parts, hands each what it needs, and serves.
// Read from top to bottom.
#include <fmt/format.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <CLI/CLI.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>
#include <cstdio>
#include <cstdlib>

#include "api/resources.h"
#include "api/server.h"
#include "base/log.h"
#include "daemon/agent_door.h"
#include "daemon/checks.h"
#include "daemon/config.h"
#include "daemon/image_door.h"
#include "driver/image.h"
#include "driver/oci.h"
#include "sandbox/supervisor.h"
#include "sandbox/worker_process.h"
#include "store/sealer.h"
#include "store/sqlite_store.h"

namespace {

using namespace sallyport;

constexpr unsigned kWorkerUidFirst = 1'900'000'000;

// Whatever the daemon touches may hold tenants' secrets, and a core would write them to disk (I3).
void harden() {
  // Only the soft limit: what is inside a sandbox has its own, which must not be above our hard
  // one.
  rlimit core{};
  if (::getrlimit(RLIMIT_CORE, &core) == 0) {
    core.rlim_cur = 0;
    (void)::setrlimit(RLIMIT_CORE, &core);
  }
  (void)::prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
  // A descriptor or two per sandbox and connection.
  rlimit files{};
  if (::getrlimit(RLIMIT_NOFILE, &files) == 0) {
    files.rlim_cur = files.rlim_max;
    (void)::setrlimit(RLIMIT_NOFILE, &files);
  }
  (void)::signal(SIGPIPE, SIG_IGN);
  (void)::umask(077);
}

Result<std::string> read_resolv_conf() {
  std::FILE* file = std::fopen("/etc/resolv.conf", "re");
  if (file == nullptr) return fail_errno("read /etc/resolv.conf");
  std::string text(65536, '\0');
  text.resize(std::fread(text.data(), 1, text.size(), file));
  std::fclose(file);
  return text;
}

struct Options {
  std::string config_path = daemon::kDefaultConfigPath;
  bool config_named = false;
  bool stop_all = false;
  bool debug = false;
  std::string build_image;
};

// `sandbox image build` without a daemon: for a first installation, and where the daemon's own
// network has no way to a Debian mirror (the lab).
Result<> build_image(const std::string& state_dir, const std::string& name) {
  const auto image = driver::build_image(
      state_dir, name, [](const std::string& line) { fmt::print(stderr, "{}\n", line); });
  if (!image) return std::unexpected(image.error());
  fmt::print("{}\n", image->name);
  return {};
}

Result<> run(const Options& options) {
  harden();
  auto config = daemon::load_config(options.config_path, !options.config_named);
  if (!config) return std::unexpected(config.error());
  log::start("sandboxd", options.debug ? log::Level::debug : config->log_level);
  if (!options.build_image.empty()) return build_image(config->state_dir, options.build_image);

  // 1. The machine and our places on it.
  if (Result<> fit = daemon::check_machine(); !fit) return fit;
  auto lock = daemon::claim_directories(*config);
  if (!lock) return std::unexpected(lock.error());
  const auto worker_program = daemon::program_beside_us("sandbox-firewall");
  if (!worker_program) return std::unexpected(worker_program.error());
  const auto agent_program = daemon::program_beside_us("sandbox-agent");
  if (!agent_program) return std::unexpected(agent_program.error());

  // 2. The boundary (I7): what the operator closes, ourselves, and the pools of the sandboxes.
  if (config->resolvers.empty()) {
    const auto text = read_resolv_conf();
    if (!text) return std::unexpected(text.error());
    auto found = daemon::resolvers_of(*text);
    if (!found) return std::unexpected(found.error());
    config->resolvers = *std::move(found);
  }
  auto own = sandbox::own_addresses();
  if (!own) return std::unexpected(own.error());
  sandbox::NodeBoundary boundary{config->boundary_close, config->boundary_open, config->networks};
  boundary.closed.insert(boundary.closed.end(), own->begin(), own->end());
  boundary.closed.push_back(config->pool4);
  boundary.closed.push_back(config->pool6);

  // The worker-uid filter on the host is a second fence and cannot tell sandboxes apart: it lets
  // the attachable networks be.
  std::vector<Cidr> attachable;
  for (const auto& [name, ranges] : config->networks)
    attachable.insert(attachable.end(), ranges.begin(), ranges.end());
  host::NodeNetwork node{
      .pool4 = config->pool4,
      .pool6 = config->pool6,
      .resolvers = config->resolvers,
      .refused = policy::Boundary(boundary.closed, boundary.opened, attachable).refused(),
      .worker_uid_first = kWorkerUidFirst};
  node.worker_uid_last = kWorkerUidFirst + host::slot_count(node) - 1;

  // 3. The parts.
  sandbox::Loop loop(16);
  const auto sealer = store::plain_sealer();
  auto store = store::open_sqlite_store(config->state_dir + "/sallyport.db", *sealer);
  if (!store) return std::unexpected(store.error());
  const auto network = sandbox::host_network(node);
  const auto workers =
      sandbox::worker_processes(loop, {.path = *worker_program,
                                       .uid_first = node.worker_uid_first,
                                       .uid_last = node.worker_uid_last,
                                       .memory_bytes = config->worker_memory_bytes});
  auto driver = driver::make_oci_driver(
      {.runtime = config->oci_runtime, .agent = *agent_program, .run_dir = config->run_dir});
  if (!driver) return std::unexpected(driver.error());
  const auto images = daemon::image_door(config->state_dir);
  sandbox::Supervisor supervisor({.loop = loop,
                                  .store = **store,
                                  .network = *network,
                                  .workers = *workers,
                                  .driver = **driver,
                                  .images = *images,
                                  .connect_agent = daemon::agent_connector(loop)},
                                 {.state_dir = config->state_dir,
                                  .run_dir = config->run_dir,
                                  .resolvers = config->resolvers,
                                  .boundary = boundary,
                                  .worker_uid_first = kWorkerUidFirst,
                                  .disk_bytes = config->disk_bytes,
                                  .egress_log_bytes = config->egress_log_bytes,
                                  .connections = config->connections,
                                  .longest_timeout = config->longest_timeout_ms,
                                  .max_sandboxes = config->max_sandboxes,
                                  .keep_stopped = config->keep_stopped_ms});
  api::Router router;
  api::add_all_routes(router, supervisor);
  api::Server server(
      loop.context(), router,
      {.listen = config->listen, .group = config->socket_group, .tokens = config->tokens});

  // 4. First what a former daemon left, then the doors open. Recovery blocks, so it runs on the
  // pool beside the loop.
  Result<> outcome;
  loop.offload([&] {
    Result<> ready = supervisor.recover();
    loop.post([&, ready] {
      outcome = ready;
      if (outcome) outcome = server.start();
      if (!outcome) return loop.stop();
      log::info("sandboxd serves", {{"listen", config->listen},
                                    {"isolation", (*driver)->name()},
                                    {"sandboxes", supervisor.live_count()}});
      supervisor.forget_old();
      if (!images->find("")) log::warn("no base image yet: run `sandbox image build`");
    });
  });

  // 5. Until told to go. Sandboxes go on running and are taken over by the next daemon, unless
  // --stop-all.
  boost::asio::signal_set signals(loop.context(), SIGTERM, SIGINT);
  signals.async_wait([&](const boost::system::error_code& error, int) {
    if (error) return;
    server.stop();
    log::info("sandboxd stops", {{"stop_all", options.stop_all}});
    if (!options.stop_all) return loop.stop();
    loop.offload([&] { supervisor.stop_all([&] { loop.stop(); }); });
  });
  loop.run();
  if (!outcome) fmt::print(stderr, "sandboxd: {}\n", outcome.error().message);
  // Work that is under way ends here as it would at kill -9, which the next start cleans up after:
  // one way down, always tested.
  std::_Exit(outcome ? 0 : 1);
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CLI::App app("The Sallyport daemon: runs sandboxes and their firewalls.", "sandboxd");
  app.add_option("--config", options.config_path, "Configuration file (docs/operations.md)")
      ->capture_default_str();
  app.add_flag("--stop-all", options.stop_all,
               "Stop every sandbox on SIGTERM instead of leaving them running");
  app.add_flag("--debug", options.debug, "Log at debug level, with the times of each create");
  app.add_option("--build-image", options.build_image,
                 "Build a base image of this name and exit; no daemon need run");
  CLI11_PARSE(app, argc, argv);
  options.config_named = app.count("--config") > 0;
  if (const sallyport::Result<> outcome = run(options); !outcome) {
    fmt::print(stderr, "sandboxd: {}\n", outcome.error().message);
    return 1;
  }
  return 0;
}
