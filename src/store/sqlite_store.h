// SPDX-License-Identifier: Apache-2.0
// The store on SQLite: one file, WAL, schema version in user_version (sqlite_schema.cc).
// synchronous=NORMAL: what was acknowledged survives the daemon's death at any instruction; a power
// cut may lose the last moments, and with them only facts about sandboxes that the same power cut
// ended.
#pragma once

#include <memory>
#include <string>

#include "store/sealer.h"
#include "store/store.h"

namespace sallyport::store {

// `path` is created 0600 if it is not there. The sealer must outlive the store.
[[nodiscard]] Result<std::unique_ptr<Store>> open_sqlite_store(const std::string& path,
                                                               Sealer& sealer);

}  // namespace sallyport::store
