// SPDX-License-Identifier: Apache-2.0
#include "driver/apt_sources.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <sstream>

namespace sallyport::driver {
namespace {

constexpr std::string_view kKeyring = "/usr/share/keyrings/debian-archive-keyring.gpg";

std::vector<std::string> words(std::string_view text) {
  std::istringstream in{std::string(text)};
  return {std::istream_iterator<std::string>(in), {}};
}

bool wanted_suite(const std::string& name, std::string_view suite) {
  const std::string base(suite);
  return name == base || name == base + "-updates" || name == base + "-security";
}

std::string lower(std::string text) {
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return char(std::tolower(c)); });
  return text;
}

void add(std::vector<std::string>& out, const std::string& signed_by, const std::string& uri,
         const std::string& suite) {
  const std::string key = signed_by.starts_with('/') ? signed_by : std::string(kKeyring);
  out.push_back("deb [signed-by=" + key + "] " + uri + " " + suite + " main");
}

// deb [options] uri suite component...
void read_line(std::string_view line, std::string_view suite, std::vector<std::string>& out) {
  std::string options;
  std::string text(line);
  if (const auto open = text.find('['); open != std::string::npos) {
    const auto close = text.find(']', open);
    if (close == std::string::npos) return;
    options = text.substr(open + 1, close - open - 1);
    text.replace(open, close - open + 1, " ");
  }
  const auto parts = words(text);
  if (parts.size() < 4 || parts[0] != "deb" || !wanted_suite(parts[2], suite)) return;
  if (std::find(parts.begin() + 3, parts.end(), "main") == parts.end()) return;
  std::string key;
  for (const auto& option : words(options)) {
    if (option.starts_with("signed-by=")) key = option.substr(10);
  }
  add(out, key, parts[1], parts[2]);
}

void read_stanza(const std::map<std::string, std::string>& fields, std::string_view suite,
                 std::vector<std::string>& out) {
  const auto list = [&fields](const char* name) {
    const auto found = fields.find(name);
    return found == fields.end() ? std::vector<std::string>{} : words(found->second);
  };
  const auto has = [](const std::vector<std::string>& all, std::string_view one) {
    return std::ranges::find(all, one) != all.end();
  };
  const auto enabled = list("enabled");
  if (!has(list("types"), "deb") || !has(list("components"), "main")) return;
  if (!enabled.empty() && lower(enabled[0]) == "no") return;
  const auto key = list("signed-by");
  for (const auto& uri : list("uris")) {
    for (const auto& name : list("suites")) {
      if (wanted_suite(name, suite)) add(out, key.empty() ? "" : key[0], uri, name);
    }
  }
}

std::vector<std::string> lines_of(std::string_view text) {
  std::vector<std::string> lines;
  std::istringstream in{std::string(text)};
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

}  // namespace

std::vector<std::string> debian_sources(std::string_view file, std::string_view suite) {
  std::vector<std::string> out;
  std::map<std::string, std::string> stanza;
  std::string field;
  for (const std::string& line : lines_of(file)) {
    if (line.starts_with('#')) continue;
    if (words(line).empty()) {
      read_stanza(stanza, suite, out);
      stanza.clear();
      continue;
    }
    const auto colon = line.find(':');
    if (line.starts_with("deb ") || line.starts_with("deb\t")) {
      read_line(line, suite, out);
    } else if ((line[0] == ' ' || line[0] == '\t') && !field.empty()) {
      stanza[field] += " " + line;
    } else if (colon != std::string::npos && line.find(' ') > colon) {
      field = lower(line.substr(0, colon));
      stanza[field] = line.substr(colon + 1);
    }
  }
  read_stanza(stanza, suite, out);
  return out;
}

std::string acquire_options(std::string_view apt_config_dump) {
  constexpr std::array<std::string_view, 6> kWanted = {
      "Acquire::http::",  "Acquire::https::",   "Acquire::Check-",
      "Acquire::Retries", "Acquire::ForceIPv4", "Acquire::ForceIPv6"};
  std::string out;
  for (const std::string& line : lines_of(apt_config_dump)) {
    const bool wanted =
        std::ranges::any_of(kWanted, [&line](auto prefix) { return line.starts_with(prefix); });
    if (wanted && line.find("\"\"") == std::string::npos) out += line + "\n";
  }
  return out;
}

std::vector<std::string> host_debian_sources(std::string_view suite) {
  namespace fs = std::filesystem;
  std::vector<fs::path> files{"/etc/apt/sources.list"};
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator("/etc/apt/sources.list.d", ignored))
    files.push_back(entry.path());
  std::ranges::sort(files);
  std::vector<std::string> out;
  for (const auto& path : files) {
    if (path.extension() != ".list" && path.extension() != ".sources") continue;
    std::ifstream in(path);
    const std::string text{std::istreambuf_iterator<char>(in), {}};
    for (auto& source : debian_sources(text, suite)) {
      if (std::ranges::find(out, source) == out.end()) out.push_back(std::move(source));
    }
  }
  if (!out.empty()) return out;
  const std::string base(suite);
  add(out, "", "http://deb.debian.org/debian", base);
  add(out, "", "http://deb.debian.org/debian", base + "-updates");
  add(out, "", "http://deb.debian.org/debian-security", base + "-security");
  return out;
}

}  // namespace sallyport::driver
