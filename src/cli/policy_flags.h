// SPDX-License-Identifier: Apache-2.0
// The flags that say a policy (spec 2.4) and --policy FILE, wherever a policy can be given. A
// policy is validated here, so that a mistake is told with its flag or its JSON path before
// anything is sent.
#pragma once

#include <CLI/CLI.hpp>
#include <istream>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/result.h"

namespace sallyport::cli {

struct PolicyFlags {
  std::string network_policy;  // allow-all or deny-all
  std::string mode;            // the same, by its older name
  std::vector<std::string> allowed_domains;
  std::vector<std::string> allowed_cidrs;
  std::vector<std::string> denied_cidrs;
  std::string file;  // "-" is standard input

  void add_to(CLI::App& app);
  // Nothing when no flag was given.
  [[nodiscard]] Result<std::optional<json::value>> policy(std::istream& in) const;
};

// The text of a policy file, "-" being `in`. Bounded.
[[nodiscard]] Result<std::string> read_policy_file(const std::string& path, std::istream& in);

}  // namespace sallyport::cli
