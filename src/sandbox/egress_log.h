// SPDX-License-Identifier: Apache-2.0
// The files of one sandbox's egress log: egress.jsonl is written by the worker through a descriptor
// it was handed; when it is full it is renamed and the worker gets a new one. Two older files are
// kept, so the disk they take is bounded.
#pragma once

#include <cstdint>
#include <string>

#include "base/fd.h"
#include "base/result.h"

namespace sallyport::sandbox {

inline constexpr int kKeptEgressLogs = 2;

[[nodiscard]] std::string egress_log_path(const std::string& state_dir,
                                          int age = 0);  // 0 is the current one
[[nodiscard]] Result<std::uint64_t> egress_log_size(const std::string& state_dir);  // bytes
[[nodiscard]] Result<Fd> open_egress_log(const std::string& state_dir);
// egress.jsonl -> egress.jsonl.1 -> egress.jsonl.2, then a new egress.jsonl.
[[nodiscard]] Result<Fd> rotate_egress_log(const std::string& state_dir);

}  // namespace sallyport::sandbox
