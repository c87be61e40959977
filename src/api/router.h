// SPDX-License-Identifier: Apache-2.0
// The table from method and path to what answers. Paths are written without the /api prefix, which
// is optional on the wire; "{name}" takes one segment. The first row that matches wins, so words
// come before names.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "api/http.h"

namespace sallyport::api {

inline constexpr std::size_t kSmallBody = 1U << 20;
inline constexpr std::size_t kPolicyBody = 10U
                                           << 20;  // policy::kMaxPolicyBytes and what is around it

using Handler = std::function<asio::awaitable<Reply>(const Call&)>;

struct Route {
  std::string method;
  std::string pattern;
  Handler handler;
  std::size_t max_body = kSmallBody;
};

class Router {
 public:
  void add(Route route);

  struct Found {
    const Route* route = nullptr;  // null: nothing there
    bool other_method = false;     // but another method would be
    std::map<std::string, std::string> params;
  };
  // `target` is the request target of HTTP, query included.
  [[nodiscard]] Found find(std::string_view method, std::string_view path) const;

  [[nodiscard]] std::vector<std::pair<std::string, std::string>> table() const;  // method, pattern

 private:
  struct Row {
    Route route;
    std::vector<std::string> segments;
  };
  std::vector<Row> rows_;
};

// Splits a request target into path and decoded query. Nothing when it is malformed.
struct Target {
  std::string path;
  std::vector<std::pair<std::string, std::string>> query;
};
[[nodiscard]] std::optional<Target> parse_target(std::string_view target);

}  // namespace sallyport::api
