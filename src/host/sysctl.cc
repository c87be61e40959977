// SPDX-License-Identifier: Apache-2.0
#include "host/sysctl.h"

#include <fcntl.h>
#include <unistd.h>

#include "base/fd.h"

namespace sallyport::host {

Result<> write_sysctl(const std::string& name, std::string_view value) {
  const std::string path = "/proc/sys/" + name;
  const Fd file(open(path.c_str(), O_WRONLY | O_CLOEXEC));
  if (!file) return fail_errno("open " + path);
  if (write(file.get(), value.data(), value.size()) != static_cast<ssize_t>(value.size()))
    return fail_errno("write " + path);
  return {};
}

Result<std::string> read_sysctl(const std::string& name) {
  const std::string path = "/proc/sys/" + name;
  const Fd file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file) return fail_errno("open " + path);
  std::string value(4096, '\0');
  const ssize_t got = read(file.get(), value.data(), value.size());
  if (got < 0) return fail_errno("read " + path);
  value.resize(static_cast<std::size_t>(got));
  while (!value.empty() && value.back() == '\n') value.pop_back();
  return value;
}

}  // namespace sallyport::host
