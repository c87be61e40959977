// SPDX-License-Identifier: Apache-2.0
#include "guest/accounts.h"

#include <gtest/gtest.h>

namespace sallyport::guest {
namespace {

constexpr std::string_view kPasswd =
    "root:x:0:0:root:/root:/bin/bash\n"
    "broken line\n"
    "bad:x:abc:0::/:/bin/sh\n"
    "minus:x:4294967295:4294967295::/:/bin/sh\n"
    "ubuntu:x:1000:1000:,,,:/vercel:/bin/bash\n"
    "short:x:7:8\n";
constexpr std::string_view kGroup =
    "root:x:0:\n"
    "sudo:x:27:other,ubuntu\n"
    "ubuntu:x:1000:ubuntu\n"
    "nearly:x:30:ubuntu2,xubuntu\n"
    "bad:x:nan:ubuntu\n"
    "docker:x:999:ubuntu";

TEST(Accounts, finds_ids_home_and_every_group) {
  const auto account = find_account(kPasswd, kGroup, "ubuntu");
  ASSERT_TRUE(account);
  EXPECT_EQ(account->uid, 1000U);
  EXPECT_EQ(account->gid, 1000U);
  EXPECT_EQ(account->home, "/vercel");
  EXPECT_EQ(account->groups, (std::vector<gid_t>{1000, 27, 999}));
}

TEST(Accounts, an_unknown_or_empty_name_is_nobody) {
  EXPECT_FALSE(find_account(kPasswd, kGroup, "ubunt"));
  EXPECT_FALSE(find_account(kPasswd, kGroup, ""));
  EXPECT_FALSE(find_account("", "", "root"));
}

TEST(Accounts, a_line_without_proper_numbers_is_nobody) {
  EXPECT_FALSE(find_account(kPasswd, kGroup, "bad"));
  EXPECT_FALSE(find_account(kPasswd, kGroup, "broken line"));
}

TEST(Accounts, the_number_that_means_no_change_to_the_kernel_is_refused) {
  EXPECT_FALSE(find_account(kPasswd, kGroup, "minus"));
}

TEST(Accounts, a_missing_home_is_the_root_directory) {
  const auto account = find_account(kPasswd, "", "short");
  ASSERT_TRUE(account);
  EXPECT_EQ(account->home, "/");
}

TEST(Accounts, a_passwd_cut_anywhere_never_gives_another_account) {
  const std::string_view whole = "ubuntu:x:1000:1000:,,,:/vercel:/bin/bash\n";
  for (std::size_t length = 0; length <= whole.size(); ++length) {
    const std::string cut(whole.substr(0, length));
    const auto account = find_account(cut, kGroup, "ubuntu");
    if (account)
      EXPECT_TRUE(account->uid == 1000 ||
                  std::to_string(1000).starts_with(std::to_string(account->uid)));
    EXPECT_FALSE(find_account(cut, kGroup, "root"));
  }
}

}  // namespace
}  // namespace sallyport::guest
