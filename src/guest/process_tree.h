// SPDX-License-Identifier: Apache-2.0
// Finds and signals everything below a process. What makes "below" reliable is that each command
// has a keeper (keeper.h) as its child subreaper: sessions, process groups and double forks all
// stay under it.
#pragma once

#include <sys/types.h>

#include <vector>

namespace sallyport::guest {

// Living (not zombie) descendants of `root`, without `root`.
[[nodiscard]] std::vector<pid_t> descendants(pid_t root);

// Sends `signal` once to each descendant. Returns how many there were.
std::size_t signal_tree(pid_t root, int signal);

// Stops, then kills, until a look finds nothing or `kMaxRounds` is reached: stopped processes do
// not fork, so that even a fork bomb runs out. True if nothing was left at the last look.
bool kill_tree(pid_t root);

}  // namespace sallyport::guest
