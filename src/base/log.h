// SPDX-License-Identifier: Apache-2.0
// The daemon's and worker's own log: one JSON object per line on stderr. Never the egress log
// (firewall/audit.h), never a secret. Fields are pairs: log::info("sandbox started", {{"sandbox",
// id}, {"ms", 12}}).
#pragma once

#include <boost/json/value.hpp>
#include <initializer_list>
#include <string_view>
#include <utility>

namespace sallyport::log {

struct Field {
  std::string_view name;
  boost::json::value value;
  template <class T>  // implicit, so that a std::string or a number can be written in place
  Field(std::string_view field_name, T&& field_value)
      : name(field_name), value(std::forward<T>(field_value)) {}
};
using Fields = std::initializer_list<Field>;

enum class Level { debug, info, warn, error };

void start(std::string_view program, Level minimum);  // call once, before the first line
void write(Level level, std::string_view message, Fields fields);

inline void debug(std::string_view message, Fields fields = {}) {
  write(Level::debug, message, fields);
}
inline void info(std::string_view message, Fields fields = {}) {
  write(Level::info, message, fields);
}
inline void warn(std::string_view message, Fields fields = {}) {
  write(Level::warn, message, fields);
}
inline void error(std::string_view message, Fields fields = {}) {
  write(Level::error, message, fields);
}

}  // namespace sallyport::log
