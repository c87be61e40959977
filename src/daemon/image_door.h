// SPDX-License-Identifier: Apache-2.0
// sandbox/images.h on top of driver/image.h.
#pragma once

#include <memory>
#include <string>

#include "sandbox/images.h"

namespace sallyport::daemon {

[[nodiscard]] std::unique_ptr<sandbox::Images> image_door(std::string state_dir);

}  // namespace sallyport::daemon
