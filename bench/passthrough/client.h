// SPDX-License-Identifier: Apache-2.0
// The loads. Each prints one JSON object on stdout.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "base/address.h"

namespace sallyport::bench {

// New connections, `parallel` at a time: hello, answer, end.
// {"connections":n,"seconds":s,"p50_us":..,"p99_us":..}
void load_connections(const Endpoint& to, const std::string& name, unsigned parallel,
                      std::chrono::milliseconds duration);
// `streams` downloads of `bytes` each at once. {"bytes":n,"seconds":s}
void load_bulk(const Endpoint& to, const std::string& name, unsigned streams, std::uint64_t bytes);
// 64 bytes there and back over one open connection. {"rounds":n,"p50_us":..,"p99_us":..}
void load_round_trips(const Endpoint& to, const std::string& name, unsigned rounds);
// Opens so many connections, says {"open":n}, holds them until stdin ends.
void hold_idle(const Endpoint& to, const std::string& name, unsigned connections);

}  // namespace sallyport::bench
