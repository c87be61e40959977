// SPDX-License-Identifier: Apache-2.0
#include "daemon/image_door.h"

#include <fmt/format.h>

#include <mutex>

#include "driver/image.h"

namespace sallyport::daemon {
namespace {

sandbox::Image to_image(driver::Image image) {
  sandbox::Image out{.name = std::move(image.name),
                     .digest = std::move(image.digest),
                     .size = image.size,
                     .created_ms = image.created * 1000,
                     .directory = std::move(image.directory),
                     .user = std::move(image.user),
                     .cwd = std::move(image.cwd),
                     .env = {}};
  for (auto& [name, value] : image.env) out.env[name] = std::move(value);
  return out;
}

class ImageDoor : public sandbox::Images {
 public:
  explicit ImageDoor(std::string state_dir) : state_dir_(std::move(state_dir)) {}

  Result<sandbox::Image> find(const std::string& name) override {
    auto image = driver::load_image(state_dir_, name.empty() ? driver::kDefaultImage : name);
    if (image) return to_image(*std::move(image));
    if (image.error().code != Code::not_found) return std::unexpected(image.error());
    if (name.empty())
      return fail(Code::not_found, "the base image is not built yet: run `sandbox image build`");
    std::string known;
    if (const auto all = driver::list_images(state_dir_)) {
      for (const driver::Image& each : *all) known += (known.empty() ? "" : ", ") + each.name;
    }
    return fail(Code::not_found, fmt::format("no image '{}' on this node; it has {}", name,
                                             known.empty() ? "none" : known));
  }

  Result<std::vector<sandbox::Image>> list() override {
    auto images = driver::list_images(state_dir_);
    if (!images) return std::unexpected(images.error());
    std::vector<sandbox::Image> out;
    for (driver::Image& each : *images) out.push_back(to_image(std::move(each)));
    return out;
  }

  Result<sandbox::Image> build(const std::string& name,
                               const std::function<void(const std::string&)>& progress) override {
    const std::lock_guard one_at_a_time(building_);
    auto image =
        driver::build_image(state_dir_, name.empty() ? driver::kDefaultImage : name, progress);
    if (!image) return std::unexpected(image.error());
    return to_image(*std::move(image));
  }

  Result<> remove(const std::string& name) override {
    return driver::remove_image(state_dir_, name);
  }

 private:
  std::string state_dir_;
  std::mutex building_;
};

}  // namespace

std::unique_ptr<sandbox::Images> image_door(std::string state_dir) {
  return std::make_unique<ImageDoor>(std::move(state_dir));
}

}  // namespace sallyport::daemon
