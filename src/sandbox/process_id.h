// SPDX-License-Identifier: Apache-2.0
// A process that cannot be mistaken for a later one with the same pid: pid plus start time, as
// /proc tells it.
#pragma once

#include <cstdint>
#include <optional>

#include "base/fd.h"
#include "base/result.h"

namespace sallyport::sandbox {

struct ProcessId {
  int pid = 0;
  std::uint64_t start_time = 0;  // clock ticks since boot
  auto operator<=>(const ProcessId&) const = default;
};

// Absent when there is no such process, or only its zombie.
[[nodiscard]] std::optional<ProcessId> process_id_of(int pid);
[[nodiscard]] bool is_alive(const ProcessId& process);
// A pidfd that surely belongs to `process`; readable once it has ended.
[[nodiscard]] Result<Fd> open_process(const ProcessId& process);

}  // namespace sallyport::sandbox
