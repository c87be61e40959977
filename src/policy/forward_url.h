// SPDX-License-Identifier: Apache-2.0
// What a forwardURL may be (R-10, FW-122): an absolute https URL without user, password, query and
// fragment. The text itself is kept as configured, because it becomes the token's audience
// (FW-133).
#pragma once

#include <string_view>

namespace sallyport::policy {

// The reason why not, or nothing.
[[nodiscard]] std::string_view bad_forward_url(std::string_view url);

}  // namespace sallyport::policy
