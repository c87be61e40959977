// SPDX-License-Identifier: Apache-2.0
#include "sandbox/directories.h"

#include <sys/stat.h>

#include <filesystem>

#include "base/log.h"

namespace sallyport::sandbox {
namespace fs = std::filesystem;

Result<> make_directory(const std::string& path) {
  if (::mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) return fail_errno("mkdir " + path);
  if (::chmod(path.c_str(), 0700) != 0) return fail_errno("chmod " + path);
  return {};
}

void remove_directory(const std::string& path) {
  std::error_code error;
  fs::remove_all(path, error);  // does not follow symbolic links; a mount point stays (EBUSY)
  if (error) log::warn("directory not removed", {{"path", path}, {"error", error.message()}});
}

void keep_only_logs(const std::string& state_dir) {
  for (const std::string& name : names_in(state_dir)) {
    if (!name.starts_with("egress.jsonl")) remove_directory(state_dir + "/" + name);
  }
}

std::vector<std::string> names_in(const std::string& directory) {
  std::vector<std::string> names;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(directory, error))
    names.push_back(entry.path().filename().string());
  return names;
}

}  // namespace sallyport::sandbox
