// SPDX-License-Identifier: Apache-2.0
#include "base/log.h"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <cerrno>
#include <cstring>
#include <memory>

#include "base/json.h"

namespace sallyport::log {
namespace {

spdlog::level::level_enum to_spdlog(Level level) {
  switch (level) {
    case Level::debug:
      return spdlog::level::debug;
    case Level::info:
      return spdlog::level::info;
    case Level::warn:
      return spdlog::level::warn;
    case Level::error:
      return spdlog::level::err;
  }
  return spdlog::level::err;
}

}  // namespace

void start(std::string_view program, Level minimum) {
  auto logger = std::make_shared<spdlog::logger>(std::string(program),
                                                 std::make_shared<spdlog::sinks::stderr_sink_mt>());
  logger->set_pattern(R"({"time":"%Y-%m-%dT%H:%M:%S.%eZ","level":"%l","program":"%n",%v})",
                      spdlog::pattern_time_type::utc);
  logger->set_level(to_spdlog(minimum));
  logger->flush_on(spdlog::level::debug);
  spdlog::set_default_logger(std::move(logger));
}

void write(Level level, std::string_view message, Fields fields) {
  if (!spdlog::should_log(to_spdlog(level))) return;
  json::object object;
  object["message"] = message;
  for (const auto& [name, value] : fields) object[name] = value;
  const std::string text = serialize_ascii(object);
  spdlog::log(to_spdlog(level), "{}", std::string_view(text).substr(1, text.size() - 2));
}

}  // namespace sallyport::log
