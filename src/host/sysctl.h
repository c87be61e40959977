// SPDX-License-Identifier: Apache-2.0
// Reads and writes /proc/sys. Names below net/ mean the network namespace of the calling thread.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace sallyport::host {

// `name` with slashes: "net/ipv4/ip_forward".
[[nodiscard]] Result<> write_sysctl(const std::string& name, std::string_view value);
[[nodiscard]] Result<std::string> read_sysctl(const std::string& name);  // without the newline

}  // namespace sallyport::host
