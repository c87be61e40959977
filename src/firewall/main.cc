// SPDX-License-Identifier: Apache-2.0
// sandbox-firewall: the firewall worker of one sandbox. Started by the supervisor with its
// descriptors in place (firewall/control.h), it first gives up what it does not need and only then
// looks at a byte.
#include <sys/resource.h>

#include <boost/asio/io_context.hpp>
#include <csignal>
#include <cstdio>
#include <ctime>

#include "base/log.h"
#include "firewall/privileges.h"
#include "firewall/worker.h"

int main(int argc, char**) {
  using namespace sallyport;
  if (argc > 2) {  // one: the sandbox's id, for whoever reads a process list
    std::fputs("sandbox-firewall is started by sandboxd with its descriptors in place.\n", stderr);
    return 2;
  }
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);  // an egress log at RLIMIT_FSIZE: the line is counted as dropped
  ::tzset();                      // reads a file, which is not possible later
  log::start("sandbox-firewall", log::Level::info);
  if (const auto done = firewall::give_up_privileges(); !done) {
    log::error("cannot give up privileges", {{"error", done.error().message}});
    return 1;
  }
  rlimit files{};
  ::getrlimit(RLIMIT_NOFILE, &files);
  firewall::WorkerOptions options;
  options.descriptors = files.rlim_cur;

  boost::asio::io_context io(1);
  firewall::Worker worker(io, firewall::WorkerSockets::inherited(), options);
  worker.start();
  io.run();
  return 0;
}
