// SPDX-License-Identifier: Apache-2.0
#include "guest/accounts.h"

#include <fcntl.h>

#include <algorithm>
#include <charconv>

#include "base/fd.h"

namespace sallyport::guest {
namespace {

constexpr std::size_t kMaxFile = 1U << 20;
constexpr std::size_t kMaxGroups = 256;

std::string_view take_until(std::string_view& rest, char separator) {
  const auto at = rest.find(separator);
  const std::string_view head = rest.substr(0, at);
  rest = at == std::string_view::npos ? std::string_view{} : rest.substr(at + 1);
  return head;
}

std::optional<unsigned> number(std::string_view text) {
  unsigned value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  // (uid_t)-1 means "leave as it is" to setresuid: an account of that number would run as root.
  if (error != std::errc{} || end != text.data() + text.size() || value == ~0U) return std::nullopt;
  return value;
}

std::optional<Account> passwd_line(std::string_view line, std::string_view name) {
  if (take_until(line, ':') != name) return std::nullopt;
  take_until(line, ':');
  const auto uid = number(take_until(line, ':'));
  const auto gid = number(take_until(line, ':'));
  if (!uid || !gid) return std::nullopt;
  take_until(line, ':');
  Account account{.name = std::string(name), .uid = *uid, .gid = *gid, .groups = {*gid}};
  if (const auto home = take_until(line, ':'); !home.empty()) account.home = home;
  return account;
}

std::optional<gid_t> group_line_with_member(std::string_view line, std::string_view name) {
  take_until(line, ':');
  take_until(line, ':');
  const auto gid = number(take_until(line, ':'));
  while (gid && !line.empty()) {
    if (take_until(line, ',') == name) return gid;
  }
  return std::nullopt;
}

std::string read_file(const char* path) {
  const Fd file(
      ::open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK));  // a fifo there must not hang the agent
  std::string text;
  char chunk[4096];
  while (file && text.size() < kMaxFile) {
    const ssize_t got = ::read(file.get(), chunk, sizeof chunk);
    if (got <= 0) break;
    text.append(chunk, std::size_t(got));
  }
  return text;
}

}  // namespace

std::optional<Account> find_account(std::string_view passwd, std::string_view group,
                                    std::string_view name) {
  if (name.empty()) return std::nullopt;
  std::optional<Account> account;
  while (!passwd.empty() && !account) account = passwd_line(take_until(passwd, '\n'), name);
  while (account && !group.empty() && account->groups.size() < kMaxGroups) {
    const auto gid = group_line_with_member(take_until(group, '\n'), name);
    if (gid && std::ranges::find(account->groups, *gid) == account->groups.end()) {
      account->groups.push_back(*gid);
    }
  }
  return account;
}

std::optional<Account> look_up_account(std::string_view name) {
  auto account = find_account(read_file("/etc/passwd"), read_file("/etc/group"), name);
  if (!account && name == "root") {
    account = Account{.name = "root", .uid = 0, .gid = 0, .groups = {0}, .home = "/root"};
  }
  return account;
}

}  // namespace sallyport::guest
