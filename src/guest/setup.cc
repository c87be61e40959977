// SPDX-License-Identifier: Apache-2.0
#include "guest/setup.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <sstream>

#include "base/fd.h"

namespace sallyport::guest {
namespace {

constexpr std::size_t kMaxHosts = 1U << 20;

std::string take_variable(const char* name) {
  const char* value = std::getenv(name);
  std::string text = value == nullptr ? "" : value;
  ::unsetenv(name);
  return text;
}

void replace_file(const std::string& path, std::string_view text) {
  const std::string draft = path + ".sallyport";
  ::unlink(draft.c_str());
  const Fd file(::open(draft.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644));
  if (!file || ::fchmod(file.get(), 0644) != 0) return;
  const bool whole = ::write(file.get(), text.data(), text.size()) == ssize_t(text.size());
  if (!whole || ::rename(draft.c_str(), path.c_str()) != 0) ::unlink(draft.c_str());
}

std::string read_file(const std::string& path) {
  const Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  std::string text;
  char chunk[4096];
  while (file && text.size() < kMaxHosts) {
    const ssize_t got = ::read(file.get(), chunk, sizeof chunk);
    if (got <= 0) break;
    text.append(chunk, std::size_t(got));
  }
  return text;
}

bool has_word(const std::string& text, const std::string& word) {
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) {
    std::istringstream words(line.substr(0, line.find('#')));
    for (std::string each; words >> each;) {
      if (each == word) return true;
    }
  }
  return false;
}

}  // namespace

GuestNames take_guest_names() {
  return {.hostname = take_variable("SALLYPORT_HOSTNAME"),
          .resolvers = take_variable("SALLYPORT_RESOLVERS")};
}

std::string resolv_conf(std::string_view resolvers) {
  std::string out = "# The sandbox's firewall answers here, and at any other address on port 53.\n";
  while (!resolvers.empty()) {
    const auto comma = resolvers.find(',');
    out += "nameserver " + std::string(resolvers.substr(0, comma)) + "\n";
    resolvers = comma == std::string_view::npos ? std::string_view{} : resolvers.substr(comma + 1);
  }
  return out;
}

void write_guest_files(const std::string& etc, const GuestNames& names) {
  ::mkdir(etc.c_str(), 0755);
  if (!names.resolvers.empty()) replace_file(etc + "/resolv.conf", resolv_conf(names.resolvers));
  if (names.hostname.empty()) return;
  replace_file(etc + "/hostname", names.hostname + "\n");
  std::string hosts = read_file(etc + "/hosts");
  if (!has_word(hosts, "localhost"))
    hosts += "127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n";
  if (!has_word(hosts, names.hostname)) hosts += "127.0.1.1\t" + names.hostname + "\n";
  replace_file(etc + "/hosts", hosts);
}

}  // namespace sallyport::guest
