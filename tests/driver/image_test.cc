// SPDX-License-Identifier: Apache-2.0
// The image store. Making an image needs the network and a minute: the check script does it once.
#include "driver/image.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "base/check.h"

namespace sallyport::driver {
namespace {

namespace fs = std::filesystem;

class Images : public ::testing::Test {
 protected:
  Images() { CHECK(::mkdtemp(state.data()) != nullptr); }
  ~Images() override { fs::remove_all(state); }
  void put(const std::string& name, const std::string& json, const std::string& content = "12345") {
    fs::create_directories(state + "/images/" + name);
    std::ofstream(state + "/images/" + name + "/image.json") << json;
    std::ofstream(state + "/images/" + name + "/root.img") << content;
  }
  static std::string good(const std::string& name, int size = 5) {
    return R"({"name":")" + name + R"(","digest":"sha256:00","size":)" + std::to_string(size) +
           R"(,"created":7,"user":"ubuntu","cwd":"/vercel","env":{"PATH":"/bin"},"packages":["bash 5.2"]})";
  }
  std::string state = "/tmp/sallyport-images-XXXXXX";
};

TEST_F(Images, a_complete_one_is_loaded) {
  put("base", good("base"));
  const auto image = load_image(state, "base");
  ASSERT_TRUE(image) << image.error().message;
  EXPECT_EQ(image->digest, "sha256:00");
  EXPECT_EQ(image->directory, state + "/images/base");
  EXPECT_EQ(image->env, (decltype(image->env){{"PATH", "/bin"}}));
  EXPECT_EQ(image->packages, std::vector<std::string>{"bash 5.2"});
}

TEST_F(Images, a_missing_one_says_how_to_make_it) {
  const auto image = load_image(state, "base");
  ASSERT_FALSE(image);
  EXPECT_EQ(image.error().code, Code::not_found);
  EXPECT_NE(image.error().message.find("sandbox image build"), std::string::npos);
}

TEST_F(Images, names_cannot_leave_the_folder) {
  for (const char* name : {"", "..", "../x", "a/b", ".lock", ".building-x", "-x", "A", "a b"}) {
    EXPECT_EQ(load_image(state, name).error().code, Code::invalid) << name;
    EXPECT_EQ(remove_image(state, name).error().code, Code::invalid) << name;
    EXPECT_EQ(build_image(state, name, [](const std::string&) {}).error().code, Code::invalid)
        << name;
  }
}

TEST_F(Images, one_that_was_cut_short_is_not_used) {
  put("base", good("base", 6));
  EXPECT_EQ(load_image(state, "base").error().code, Code::invalid);
}

TEST_F(Images, odd_descriptions_are_errors) {
  for (const char* text :
       {"", "[]", "{}", R"({"name":1})", R"({"name":"base","digest":"x","size":"5"})"}) {
    put("base", text);
    EXPECT_FALSE(load_image(state, "base")) << text;
  }
}

TEST_F(Images, the_list_is_sorted_and_leaves_out_what_is_not_complete) {
  put("b", good("b"));
  put("a", good("a"));
  put("broken", "{");
  put(".building-c", good("c"));
  const auto all = list_images(state);
  ASSERT_TRUE(all);
  ASSERT_EQ(all->size(), 2U);
  EXPECT_EQ(all->at(0).name, "a");
  EXPECT_EQ(all->at(1).name, "b");
}

TEST_F(Images, a_removed_one_is_gone_and_can_be_gone_only_once) {
  put("base", good("base"));
  EXPECT_TRUE(remove_image(state, "base"));
  EXPECT_FALSE(fs::exists(state + "/images/base"));
  EXPECT_EQ(remove_image(state, "base").error().code, Code::not_found);
}

}  // namespace
}  // namespace sallyport::driver
