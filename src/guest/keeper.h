// SPDX-License-Identifier: Apache-2.0
// Starts a command under a keeper: a fork of the agent that becomes the child subreaper of
// everything the command starts, reports how the command went, and goes on reaping until the last
// descendant is gone. That is how the agent can tell whose a double-forked daemon is
// without cgroups, which a container may not be given.
//
//   agent --fork--> keeper (root, all signals blocked) --fork--> command (its own session, the
//   account's identity)
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "base/fd.h"
#include "base/result.h"
#include "guest/accounts.h"

namespace sallyport::guest {

struct Plan {
  std::vector<std::string> argv;  // argv[0] is the command as asked for
  std::vector<std::string> env;   // NAME=value
  std::string path;               // where to look for an argv[0] without slash
  std::string cwd;                // absolute, or relative to the account's home
  Account account;
};

enum class Stage : std::int32_t { prepare, identity, cwd, exec };

// One datagram each on Spawned::report, in this order: failed, or started and then exited. A report
// stream that ends without `exited` means that somebody killed the keeper.
struct Report {
  enum class Kind : std::int32_t { failed, started, exited };
  Kind kind;
  std::int32_t first = 0;   // failed: Stage; started: pid; exited: status as of waitpid
  std::int32_t second = 0;  // failed: errno
};

struct Spawned {
  pid_t keeper = 0;
  Fd report;  // SOCK_SEQPACKET, non-blocking
  Fd out;     // read ends, non-blocking
  Fd err;
};

[[nodiscard]] Result<Spawned> spawn(const Plan& plan);

}  // namespace sallyport::guest
