// SPDX-License-Identifier: Apache-2.0
// Records as the API's objects (spec/api.md 1.2). Optional members are absent, never null: the
// clients' validators throw on null. Nothing that identifies the node (pids, slots, paths) is in
// them.
#pragma once

#include "base/json.h"
#include "sandbox/supervisor.h"
#include "store/store.h"

namespace sallyport::api {

[[nodiscard]] json::object render_sandbox(const store::SandboxRecord& sandbox,
                                          const json::value& policy);
[[nodiscard]] json::object render_session(const store::SessionRecord& session,
                                          const json::value& policy);
[[nodiscard]] json::object render_command(const store::CommandRecord& command);
// {"sandbox":…,"session":…,"routes":[]}
[[nodiscard]] json::object render_view(const sandbox::View& view);
[[nodiscard]] json::object render_pagination(std::size_t count,
                                             const std::optional<std::string>& next);

}  // namespace sallyport::api
