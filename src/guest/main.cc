// SPDX-License-Identifier: Apache-2.0
// sandbox-agent: PID 1 of a sandbox. Expects the listening socket of its supervisor at descriptor
// kAgentListenFd and nothing else; /proc must be mounted.
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>

#include "guest/agent.h"
#include "guest/protocol.h"
#include "guest/setup.h"

namespace sallyport::guest {
namespace {

bool is_listening(int fd) {
  int listening = 0;
  socklen_t size = sizeof listening;
  return ::getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listening, &size) == 0 && listening == 1;
}

// The agent's own 0 to 2: taken, so that nothing it opens gets those numbers.
void occupy_standard_descriptors() {
  int fd = ::open("/dev/null", O_RDWR);
  while (fd >= 0 && fd < 3) fd = ::dup(fd);
  if (fd >= 3) ::close(fd);
}

Fd take_signals() {
  sigset_t wanted;
  ::sigemptyset(&wanted);
  for (const int signal : {SIGCHLD, SIGTERM, SIGINT, SIGHUP}) ::sigaddset(&wanted, signal);
  ::sigprocmask(SIG_BLOCK, &wanted, nullptr);
  ::signal(SIGPIPE, SIG_IGN);
  return Fd(::signalfd(-1, &wanted, SFD_NONBLOCK | SFD_CLOEXEC));
}

int run() {
  if (!is_listening(kAgentListenFd)) {
    std::fputs("sandbox-agent: descriptor 3 is not a listening socket\n", stderr);
    return 2;
  }
  ::umask(022);  // whatever the supervisor's is
  occupy_standard_descriptors();
  if (::getpid() == 1) write_guest_files("/etc", take_guest_names());
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  Loop loop;
  Agent agent(loop, Fd(kAgentListenFd), take_signals());
  loop.run();
  return 0;
}

}  // namespace
}  // namespace sallyport::guest

int main() { return sallyport::guest::run(); }
