// SPDX-License-Identifier: Apache-2.0
// Reads /etc/passwd and /etc/group without NSS, which a static binary cannot carry. The files are
// the guest's: bounded, and a line that makes no sense is skipped as the C library does.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sallyport::guest {

struct Account {
  std::string name;
  uid_t uid = 0;
  gid_t gid = 0;
  std::vector<gid_t> groups;  // gid first, then the supplementary ones
  std::string home = "/";
};

// `passwd` and `group` are the files' contents.
[[nodiscard]] std::optional<Account> find_account(std::string_view passwd, std::string_view group,
                                                  std::string_view name);
// The same from /etc. Root exists even if the files do not: an image without them can still be
// looked into.
[[nodiscard]] std::optional<Account> look_up_account(std::string_view name);

}  // namespace sallyport::guest
