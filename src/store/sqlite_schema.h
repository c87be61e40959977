// SPDX-License-Identifier: Apache-2.0
// The tables, and how an older file becomes a current one: migration n brings user_version from n
// to n+1, each in its own transaction. A file that is newer than this program is refused, never
// guessed at.
#pragma once

#include "base/result.h"
#include "store/sqlite.h"

namespace sallyport::store {

[[nodiscard]] int schema_version();
[[nodiscard]] Result<> migrate(Database& database);

}  // namespace sallyport::store
