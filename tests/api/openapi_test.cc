// SPDX-License-Identifier: Apache-2.0
// src/api/openapi.yaml lists exactly the routes that the server has.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <set>

#include "support/test_api.h"

namespace sallyport {
namespace {

// Paths stand at two spaces, methods at four or in `{post: *create}`; that much of YAML is enough
// here.
std::set<std::string> documented() {
  std::ifstream file(SALLYPORT_SOURCE_DIR "/src/api/openapi.yaml");
  std::set<std::string> out;
  std::string line, path;
  const auto add = [&](std::string method) {
    std::ranges::transform(method, method.begin(),
                           [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
    out.insert(method + " " + path);
  };
  while (std::getline(file, line)) {
    if (line == "components:") break;
    if (line.starts_with("  /")) {
      path = line.substr(2, line.find(':', 2) - 2);
      if (line.find("{post:") != std::string::npos) add("post");
    }
    for (const std::string method : {"get", "post", "delete", "patch", "put"}) {
      if (line.starts_with("    " + method + ":")) add(method);
    }
  }
  return out;
}

class OpenApi : public test::ApiTest {};

TEST_F(OpenApi, has_every_route_and_no_other) {
  std::set<std::string> served;
  for (const auto& [method, pattern] : router.table()) served.insert(method + " " + pattern);
  EXPECT_EQ(documented(), served);
}

}  // namespace
}  // namespace sallyport
