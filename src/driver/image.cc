// SPDX-License-Identifier: Apache-2.0
#include "driver/image.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/fs.h>
#include <openssl/evp.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <boost/json/serialize.hpp>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <optional>

#include "base/fd.h"
#include "base/json.h"
#include "driver/apt_sources.h"
#include "driver/image_setup.h"
#include "driver/program.h"

namespace sallyport::driver {
namespace {

namespace fs = std::filesystem;
using std::chrono::minutes;

constexpr std::size_t kMaxImageJson = 4U << 20;
constexpr std::string_view kDraft = ".building-";
// Fixed, so that two builds of the same tree differ in nothing that we choose.
constexpr const char* kFileSystemId = "5a11f047-0000-4000-8000-000000000001";

using Progress = std::function<void(const std::string&)>;

std::string images_of(const std::string& state_dir) { return state_dir + "/images"; }

bool valid_name(std::string_view name) {
  const auto plain = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); };
  if (name.empty() || name.size() > 63 || !plain(name[0])) return false;
  return std::ranges::all_of(
      name, [&plain](char c) { return plain(c) || c == '.' || c == '_' || c == '-'; });
}

std::unexpected<Error> bad_name(const std::string& name) {
  return fail(Code::invalid,
              "image name '" + name + "': use a-z, 0-9, '.', '_' and '-', at most 63");
}

Result<std::string> read_file(const std::string& path, std::size_t max) {
  std::ifstream in(path, std::ios::binary);
  if (!in) return fail_errno("read " + path);
  std::string text{std::istreambuf_iterator<char>(in), {}};
  if (text.size() > max) return fail(Code::invalid, path + ": too large");
  return text;
}

Result<> write_file(const std::string& path, std::string_view text, mode_t mode) {
  const Fd file(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, mode));
  if (!file) return fail_errno("write " + path);
  while (!text.empty()) {
    const ssize_t put = ::write(file.get(), text.data(), text.size());
    if (put < 0) return fail_errno("write " + path);
    text.remove_prefix(std::size_t(put));
  }
  if (::fsync(file.get()) != 0) return fail_errno("sync " + path);
  return {};
}

Result<> make_directory(const std::string& path, mode_t mode) {
  if (::mkdir(path.c_str(), mode) != 0 && errno != EEXIST) return fail_errno("mkdir " + path);
  return {};
}

Result<std::string> digest_of(const std::string& path) {
  const Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file) return fail_errno("open " + path);
  const std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> hash(EVP_MD_CTX_new(),
                                                                     &EVP_MD_CTX_free);
  EVP_DigestInit_ex(hash.get(), EVP_sha256(), nullptr);
  std::vector<char> buffer(1U << 20);
  for (;;) {
    const ssize_t got = ::read(file.get(), buffer.data(), buffer.size());
    if (got < 0) return fail_errno("read " + path);
    if (got == 0) break;
    EVP_DigestUpdate(hash.get(), buffer.data(), std::size_t(got));
  }
  std::array<unsigned char, 32> raw{};
  EVP_DigestFinal_ex(hash.get(), raw.data(), nullptr);
  std::string text = "sha256:";
  for (const unsigned byte : raw) text += fmt::format("{:02x}", byte);
  return text;
}

std::string render(const Image& image) {
  json::object env;
  for (const auto& [name, value] : image.env) env[name] = value;
  json::array packages;
  for (const auto& package : image.packages) packages.emplace_back(package);
  return json::serialize(json::object{{"name", image.name},
                                      {"digest", image.digest},
                                      {"size", image.size},
                                      {"created", image.created},
                                      {"user", image.user},
                                      {"cwd", image.cwd},
                                      {"env", std::move(env)},
                                      {"packages", std::move(packages)}}) +
         "\n";
}

Result<Image> parse(const std::string& text) {
  const auto value = parse_json(text, {.max_bytes = kMaxImageJson, .max_depth = 4});
  if (!value) return std::unexpected(value.error());
  try {  // Boost.JSON's checked accessors throw; any wrong shape is one answer
    const auto& object = value->as_object();
    const auto string = [&object](const char* name) {
      return std::string(object.at(name).as_string());
    };
    Image image{.name = string("name"),
                .digest = string("digest"),
                .size = object.at("size").to_number<std::uint64_t>(),
                .created = object.at("created").to_number<std::int64_t>(),
                .user = string("user"),
                .cwd = string("cwd")};
    for (const auto& [name, item] : object.at("env").as_object()) {
      image.env.emplace_back(name, std::string(item.as_string()));
    }
    for (const auto& item : object.at("packages").as_array())
      image.packages.emplace_back(item.as_string());
    return image;
  } catch (const std::exception& wrong) {
    return fail(Code::invalid, "image.json: " + std::string(wrong.what()));
  }
}

// One build at a time; the lock ends with the process. Whoever holds it may clear what killed
// builds left.
Result<Fd> begin_build(const std::string& images) {
  const std::string path = images + "/.lock";
  Fd lock(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!lock) return fail_errno("open " + path);
  if (::flock(lock.get(), LOCK_EX | LOCK_NB) != 0)
    return fail(Code::conflict, "an image is being built already");
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(images, ignored)) {
    if (entry.path().filename().string().starts_with(kDraft)) fs::remove_all(entry.path(), ignored);
  }
  return lock;
}

Result<> write_inputs(const std::string& draft, const Progress& progress) {
  std::string sources;
  for (const auto& source : host_debian_sources(kSuite)) {
    progress("source: " + source);
    sources += source + "\n";
  }
  std::string dump;
  const Program ask{.argv = {"apt-config", "dump"},
                    .line = [&dump](std::string_view line) { dump += std::string(line) + "\n"; }};
  if (auto asked = run_program(ask); !asked) return asked;
  if (auto put = write_file(draft + "/sources.list", sources, 0644); !put) return put;
  if (auto put = write_file(draft + "/apt.conf", acquire_options(dump), 0644); !put) return put;
  return write_file(draft + "/setup", kSetupScript, 0755);
}

Result<> make_tree(const std::string& draft, const Progress& progress) {
  progress("installing Debian " + std::string(kSuite));
  const Program program{
      .argv = {"mmdebstrap", "--variant=minbase", "--mode=root", "--format=directory",
               "--aptopt=" + draft + "/apt.conf", "--include=" + std::string(kPackages),
               "--customize-hook=" + draft + "/setup", std::string(kSuite), draft + "/root",
               draft + "/sources.list"},
      .limit = minutes(30),
      .line = [&progress](std::string_view line) { progress(std::string(line)); }};
  return run_program(program);
}

Result<std::vector<std::string>> packages_in(const std::string& root) {
  std::vector<std::string> packages;
  const Program program{
      .argv = {"dpkg-query", "--admindir=" + root + "/var/lib/dpkg", "-W", "-f",
               "${Package} ${Version}\\n"},
      .line = [&packages](std::string_view line) { packages.emplace_back(line); }};
  if (auto asked = run_program(program); !asked) return std::unexpected(asked.error());
  return packages;
}

Result<> make_file_system(const std::string& draft, const Progress& progress) {
  progress("packing the file system");
  const Program program{
      .argv = {"mkfs.erofs", "--quiet", "--preserve-mtime", "-U", kFileSystemId,
               draft + "/root.img", draft + "/root"},
      .limit = minutes(10),
      .line = [&progress](std::string_view line) { progress(std::string(line)); }};
  return run_program(program);
}

Result<Image> fill_draft(const std::string& draft, const std::string& name,
                         const Progress& progress) {
  if (auto done = write_inputs(draft, progress); !done) return std::unexpected(done.error());
  if (auto done = make_tree(draft, progress); !done) return std::unexpected(done.error());
  auto packages = packages_in(draft + "/root");
  if (!packages) return std::unexpected(packages.error());
  if (auto done = make_file_system(draft, progress); !done) return std::unexpected(done.error());
  const std::string file = draft + "/root.img";
  auto digest = digest_of(file);
  if (!digest) return std::unexpected(digest.error());
  std::error_code failed;
  Image image{.name = name,
              .digest = std::move(*digest),
              .size = fs::file_size(file, failed),
              .created = std::chrono::duration_cast<std::chrono::seconds>(
                             std::chrono::system_clock::now().time_since_epoch())
                             .count(),
              .env = {{"PATH", std::string(kPath)}, {"LANG", "C.UTF-8"}},
              .packages = std::move(*packages)};
  if (auto put = write_file(draft + "/image.json", render(image), 0644); !put)
    return std::unexpected(put.error());
  for (const char* input : {"root", "sources.list", "apt.conf", "setup"})
    fs::remove_all(draft + "/" + input, failed);
  const Fd synced(::open(file.c_str(), O_RDONLY | O_CLOEXEC));
  if (!synced || ::fsync(synced.get()) != 0) return fail_errno("sync " + file);
  return image;
}

// The old image of that name, if any, is what the draft's name holds afterwards.
Result<> put_in_place(const std::string& draft, const std::string& place) {
  if (::syscall(SYS_renameat2, AT_FDCWD, draft.c_str(), AT_FDCWD, place.c_str(), RENAME_EXCHANGE) ==
      0)
    return {};
  if (errno != ENOENT) return fail_errno("rename " + place);
  if (::rename(draft.c_str(), place.c_str()) != 0) return fail_errno("rename " + place);
  return {};
}

}  // namespace

Result<Image> load_image(const std::string& state_dir, const std::string& name) {
  if (!valid_name(name)) return bad_name(name);
  const std::string directory = images_of(state_dir) + "/" + name;
  const auto text = read_file(directory + "/image.json", kMaxImageJson);
  if (!text && text.error().code == Code::not_found) {
    return fail(Code::not_found,
                "no such image: " + name + " (make it with `sandbox image build`)");
  }
  if (!text) return context("image " + name, text.error());
  auto image = parse(*text);
  if (!image) return context("image " + name, image.error());
  std::error_code missing;
  if (fs::file_size(directory + "/root.img", missing) != image->size || missing) {
    return fail(Code::invalid, "image " + name + ": root.img is missing or cut short");
  }
  image->directory = directory;
  return image;
}

Result<std::vector<Image>> list_images(const std::string& state_dir) {
  std::vector<Image> images;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(images_of(state_dir), ignored)) {
    const std::string name = entry.path().filename();
    if (!valid_name(name)) continue;
    if (auto image = load_image(state_dir, name)) images.push_back(std::move(*image));
  }
  std::ranges::sort(images, {}, &Image::name);
  return images;
}

Result<> remove_image(const std::string& state_dir, const std::string& name) {
  if (!valid_name(name)) return bad_name(name);
  const std::string place = images_of(state_dir) + "/" + name;
  const std::string trash = images_of(state_dir) + "/" + std::string(kDraft) + "removed-" + name;
  if (::rename(place.c_str(), trash.c_str()) != 0) {
    if (errno == ENOENT) return fail(Code::not_found, "no such image: " + name);
    return fail_errno("remove " + place);
  }
  std::error_code failed;
  fs::remove_all(trash, failed);
  if (failed) return fail(Code::internal, "remove " + trash + ": " + failed.message());
  return {};
}

Result<Image> build_image(const std::string& state_dir, const std::string& name,
                          const Progress& progress) {
  if (!valid_name(name)) return bad_name(name);
  const std::string images = images_of(state_dir);
  const std::string draft = images + "/" + std::string(kDraft) + name;
  if (auto made = make_directory(images, 0755); !made) return std::unexpected(made.error());
  const auto lock = begin_build(images);
  if (!lock) return std::unexpected(lock.error());
  if (auto made = make_directory(draft, 0755); !made) return std::unexpected(made.error());
  auto image = fill_draft(draft, name, progress);
  const Result<> placed = image ? put_in_place(draft, images + "/" + name) : Result<>{};
  std::error_code ignored;
  fs::remove_all(draft, ignored);
  if (!image) return context("image " + name, image.error());
  if (!placed) return context("image " + name, placed.error());
  progress(fmt::format("image {} is ready: {} MiB, {}", name, image->size >> 20, image->digest));
  return load_image(state_dir, name);
}

}  // namespace sallyport::driver
