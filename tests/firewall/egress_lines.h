// SPDX-License-Identifier: Apache-2.0
// An egress log in memory, for tests.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <boost/json.hpp>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/fd.h"
#include "firewall/audit.h"

namespace sallyport::test {

class EgressLines {
 public:
  EgressLines() : file_(::memfd_create("egress", MFD_CLOEXEC)), audit(Fd(::dup(file_.get()))) {
    audit.name_sandbox("sbx_1");
  }

  [[nodiscard]] std::vector<boost::json::object> lines() const {
    std::string text(static_cast<std::size_t>(::lseek(file_.get(), 0, SEEK_END)), '\0');
    CHECK(::pread(file_.get(), text.data(), text.size(), 0) == static_cast<ssize_t>(text.size()));
    std::vector<boost::json::object> out;
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t end = text.find('\n', at);
      CHECK(end != std::string::npos);
      out.push_back(boost::json::parse(text.substr(at, end - at)).as_object());
      at = end + 1;
    }
    return out;
  }

 private:
  Fd file_;

 public:
  firewall::Audit audit;
};

inline std::string text(const boost::json::object& line, std::string_view key) {
  const auto* value = line.if_contains(key);
  return value == nullptr     ? "(absent)"
         : value->is_string() ? std::string(value->as_string())
                              : boost::json::serialize(*value);
}

}  // namespace sallyport::test
