// SPDX-License-Identifier: Apache-2.0
// Reads the members of a JSON object strictly: right type, in its limits, nothing left over. The
// first mistake is kept with its path ("$.resources.vcpus: must be 1 or even"), and everything
// after it is not looked at. A member that nobody asked for is a mistake too: a mistyped
// "networkpolicy" must not become allow-all. Only keys that start with "__" are ignored.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"

namespace sallyport::api {

class Fields {
 public:
  Fields(const json::object& object, std::string at) : object_(object), at_(std::move(at)) {}

  std::optional<std::string> text(std::string_view key, std::size_t max_length);
  std::optional<std::int64_t> integer(std::string_view key, std::int64_t least, std::int64_t most);
  std::optional<bool> boolean(std::string_view key);
  std::optional<std::vector<std::string>> texts(std::string_view key, std::size_t max_count,
                                                std::size_t max_length);
  std::optional<std::map<std::string, std::string>> text_map(std::string_view key,
                                                             std::size_t max_count,
                                                             std::size_t max_length);
  const json::object* object(std::string_view key);
  const json::value* value(std::string_view key);  // any type; null when absent
  [[nodiscard]] std::string at(std::string_view key) const { return json_path_key(at_, key); }

  void refuse(std::string_view key, std::string_view why);  // keeps the first
  void refuse_with(const Error& error) {
    if (!error_) error_ = error;
  }
  // For what a later version will do: absent or "asks for nothing" (null, false, empty) passes.
  void refuse_if_asked(std::string_view key, std::string_view why);
  [[nodiscard]] Result<> finish();  // names what nobody read

 private:
  const json::value* take(std::string_view key);

  const json::object& object_;
  std::string at_;
  std::set<std::string, std::less<>> read_;
  std::optional<Error> error_;
};

// An object from a request body. An empty body is an empty object: clients send a JSON content type
// without one.
[[nodiscard]] Result<json::object> body_object(std::string_view body, std::size_t max_bytes);

}  // namespace sallyport::api
