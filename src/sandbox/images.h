// SPDX-License-Identifier: Apache-2.0
// Base images as the control plane needs them; a door, because making one takes a minute and the
// network. The real one is driver/image.h.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/result.h"

namespace sallyport::sandbox {

struct Image {
  std::string name;
  std::string digest;
  std::uint64_t size = 0;
  std::int64_t created_ms = 0;
  std::string directory;
  std::string user = "ubuntu";
  std::string cwd = "/vercel";
  std::map<std::string, std::string> env;
};

class Images {
 public:
  virtual ~Images() = default;
  // `name` as a request writes it; empty for the default. Code::not_found says how to make it.
  [[nodiscard]] virtual Result<Image> find(const std::string& name) = 0;
  [[nodiscard]] virtual Result<std::vector<Image>> list() = 0;
  // Blocks for as long as it takes; progress gets one line at a time from the calling thread.
  [[nodiscard]] virtual Result<Image> build(
      const std::string& name, const std::function<void(const std::string&)>& progress) = 0;
  [[nodiscard]] virtual Result<> remove(const std::string& name) = 0;
};

}  // namespace sallyport::sandbox
