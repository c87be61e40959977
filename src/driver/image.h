// SPDX-License-Identifier: Apache-2.0
// Base images: <state_dir>/images/<name>/{root.img, image.json}. Built once by mmdebstrap and
// mkfs.erofs, written under a temporary name and renamed, so that an image either is complete or is
// not there.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"

namespace sallyport::driver {

inline constexpr const char* kDefaultImage = "base";

struct Image {
  std::string name;          // [a-z0-9][a-z0-9._-]{0,62}
  std::string digest;        // "sha256:<hex>" of root.img
  std::uint64_t size = 0;    // bytes of root.img
  std::int64_t created = 0;  // Unix seconds
  std::string directory = {};
  std::string user = "ubuntu";
  std::string cwd = "/vercel";
  std::vector<std::pair<std::string, std::string>> env = {};  // of every command, weakest layer
  std::vector<std::string> packages = {};                     // "bash 5.2.15-2+b7"
};

[[nodiscard]] Result<Image> load_image(const std::string& state_dir, const std::string& name);
[[nodiscard]] Result<std::vector<Image>> list_images(const std::string& state_dir);
[[nodiscard]] Result<> remove_image(const std::string& state_dir, const std::string& name);
// Blocks for a minute or so; `progress` gets one line at a time, from the calling thread. Replaces
// an image of that name.
[[nodiscard]] Result<Image> build_image(const std::string& state_dir, const std::string& name,
                                        const std::function<void(const std::string&)>& progress);

}  // namespace sallyport::driver
