// SPDX-License-Identifier: Apache-2.0
#include "api/create_request.h"

#include <fmt/format.h>

#include <algorithm>

#include "api/fields.h"
#include "api/resources.h"
#include "sandbox/names.h"

namespace sallyport::api {
namespace {

constexpr std::int64_t kMaxVcpus = 32;
constexpr std::int64_t kDay = 24LL * 3600 * 1000;
constexpr std::size_t kMaxEnv = 1024;
constexpr std::size_t kMaxEnvValue = 128U << 10;  // what execve takes in one string

void read_resources(Fields& fields, sandbox::CreateRequest& request) {
  const json::object* object = fields.object("resources");
  if (object == nullptr) return;
  Fields resources(*object, fields.at("resources"));
  const auto vcpus = resources.integer("vcpus", 1, kMaxVcpus);
  if (vcpus && *vcpus != 1 && *vcpus % 2 != 0) resources.refuse("vcpus", "must be 1 or even");
  request.vcpus = static_cast<unsigned>(vcpus.value_or(request.vcpus));
  const auto memory = resources.integer("memory", 1, kMaxVcpus * 2048);
  if (memory && *memory != std::int64_t{request.vcpus} * 2048) {
    resources.refuse("memory",
                     fmt::format("must be vcpus * 2048, that is {}", request.vcpus * 2048));
  }
  if (Result<> done = resources.finish(); !done) fields.refuse_with(done.error());
}

void read_env(Fields& fields, sandbox::CreateRequest& request) {
  auto env = fields.text_map("env", kMaxEnv, kMaxEnvValue);
  if (!env) return;
  for (const auto& [key, value] : *env) {
    if (key.empty() || key.find('=') != std::string::npos || key.find('\0') != std::string::npos) {
      fields.refuse("env", fmt::format("'{}' is no name of a variable", key));
    }
  }
  request.env = *std::move(env);
}

void read_snapshot_settings(Fields& fields, sandbox::CreateRequest& request) {
  if (const auto expiration = fields.integer("snapshotExpiration", 0, 10 * 365 * kDay)) {
    if (*expiration != 0 && *expiration < kDay)
      fields.refuse("snapshotExpiration", "must be 0 (never) or at least one day");
    request.extra["snapshotExpiration"] = *expiration;
  }
  const json::object* keep = fields.object("keepLastSnapshots");
  if (keep == nullptr) return;
  Fields inner(*keep, fields.at("keepLastSnapshots"));
  const auto count = inner.integer("count", 1, 10);
  if (!count) inner.refuse("count", "is required");
  json::object out = {{"count", count.value_or(1)},
                      {"deleteEvicted", inner.boolean("deleteEvicted").value_or(true)}};
  if (const auto expiration = inner.integer("expiration", 0, 10 * 365 * kDay))
    out["expiration"] = *expiration;
  if (Result<> done = inner.finish(); !done) fields.refuse_with(done.error());
  request.extra["keepLastSnapshots"] = std::move(out);
}

void read_region(Fields& fields, sandbox::CreateRequest& request) {
  request.region = fields.text("region", 64).value_or(request.region);
  const auto failover = fields.texts("failoverRegions", 16, 64);
  if (!failover || failover->empty()) return;
  if (std::ranges::find(*failover, request.region) != failover->end()) {
    fields.refuse_with(
        {Code::invalid,
         fmt::format("failoverRegions must not include the sandbox region: {}", request.region)});
  }
  request.extra["failoverRegions"] = json::array(failover->begin(), failover->end());
}

}  // namespace

Result<ParsedCreate> parse_create(const json::object& body, const Principal& principal,
                                  store::Millis longest_timeout) {
  ParsedCreate out;
  sandbox::CreateRequest& request = out.request;
  Fields fields(body, "$");
  request.key.team = principal.team.value_or("default");
  request.key.project = fields.text("projectId", 128).value_or("default");
  if (request.key.project.empty()) fields.refuse("projectId", "must not be empty");
  if (auto name = fields.text("name", 128)) {
    if (!sandbox::is_sandbox_name(*name)) {
      fields.refuse("name",
                    "must be 1 to 128 of a-z, A-Z, 0-9, '_' and '-', and none of sessions, "
                    "snapshots, drives");
    }
    request.key.name = *std::move(name);
  }
  request.timeout = fields.integer("timeout", 1000, longest_timeout).value_or(request.timeout);
  request.persistent = fields.boolean("persistent").value_or(true);
  request.image = fields.text("image", 255).value_or("");
  request.network_id = fields.text("networkId", 255);
  read_resources(fields, request);
  read_env(fields, request);
  if (auto tags = fields.text_map("tags", 5, 256)) request.tags = *std::move(tags);
  read_snapshot_settings(fields, request);
  read_region(fields, request);
  if (const json::value* given = fields.value("networkPolicy")) {
    auto policy = enforceable_policy(*given, "$.networkPolicy");
    if (!policy) fields.refuse_with(policy.error());
    if (policy) request.policy = *std::move(policy);
  }
  fields.refuse_if_asked("ports", "public ports are not served by this version");
  fields.refuse_if_asked(
      "source",
      "a source is not fetched by this version; create the sandbox and run git or curl in it");
  fields.refuse_if_asked("mounts", "drives are not served by this version");
  fields.refuse_if_asked("runtime",
                         "legacy runtimes are not served; name an image, or leave both out");
  out.interactive = body.if_contains("__interactive") != nullptr;
  if (Result<> done = fields.finish(); !done) return std::unexpected(done.error());
  return out;
}

}  // namespace sallyport::api
