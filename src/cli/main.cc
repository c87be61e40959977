// SPDX-License-Identifier: Apache-2.0
// The `sandbox` program. The commands are in program.cc's table, one file each.
#include <cstdlib>
#include <iostream>

#include "cli/cli.h"

int main(int argc, char** argv) {
  std::ios::sync_with_stdio(false);
  sallyport::cli::Terminal terminal{
      std::cin, std::cout, std::cerr, [](const std::string& name) -> std::optional<std::string> {
        const char* value = std::getenv(name.c_str());
        return value == nullptr ? std::nullopt : std::optional<std::string>(value);
      }};
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  return sallyport::cli::run_program(arguments, terminal);
}
