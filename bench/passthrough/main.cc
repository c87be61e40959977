// SPDX-License-Identifier: Apache-2.0
// bench-passthrough: the two ends of the passthrough bench; run.py puts a proxy between them and
// prints the table.
#include <sys/resource.h>

#include <charconv>
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include "passthrough/client.h"
#include "passthrough/origin.h"
#include "passthrough/sockets.h"

namespace {

constexpr std::string_view kUsage =
    "bench-passthrough origin ADDRESS:PORT\n"
    "bench-passthrough connections ADDRESS:PORT NAME PARALLEL MILLISECONDS\n"
    "bench-passthrough bulk ADDRESS:PORT NAME STREAMS BYTES\n"
    "bench-passthrough roundtrips ADDRESS:PORT NAME ROUNDS\n"
    "bench-passthrough idle ADDRESS:PORT NAME CONNECTIONS\n";

std::uint64_t number(std::string_view text) {
  std::uint64_t value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

}  // namespace

int main(int argc, char** argv) {
  using namespace sallyport::bench;
  rlimit files{};
  ::getrlimit(RLIMIT_NOFILE, &files);
  files.rlim_cur = files.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &files);
  const std::vector<std::string> args(argv + 1, argv + argc);
  if (args.size() == 2 && args[0] == "origin") run_origin(endpoint(args[1]));
  if (args.size() == 5 && args[0] == "connections")
    return load_connections(endpoint(args[1]), args[2], static_cast<unsigned>(number(args[3])),
                            std::chrono::milliseconds(number(args[4]))),
           0;
  if (args.size() == 5 && args[0] == "bulk")
    return load_bulk(endpoint(args[1]), args[2], static_cast<unsigned>(number(args[3])),
                     number(args[4])),
           0;
  if (args.size() == 4 && args[0] == "roundtrips")
    return load_round_trips(endpoint(args[1]), args[2], static_cast<unsigned>(number(args[3]))), 0;
  if (args.size() == 4 && args[0] == "idle")
    return hold_idle(endpoint(args[1]), args[2], static_cast<unsigned>(number(args[3]))), 0;
  std::fputs(kUsage.data(), stderr);
  return 2;
}
