// SPDX-License-Identifier: Apache-2.0
#include "driver/apt_sources.h"

#include <gtest/gtest.h>

namespace sallyport::driver {
namespace {

constexpr std::string_view kKey = "/usr/share/keyrings/debian-archive-keyring.gpg";
using Lines = std::vector<std::string>;

std::string entry(const std::string& uri, const std::string& suite,
                  std::string key = std::string(kKey)) {
  return "deb [signed-by=" + key + "] " + uri + " " + suite + " main";
}

TEST(AptSources, one_line_entries_of_the_release_are_taken) {
  EXPECT_EQ(debian_sources(
                "# comment\n"
                "deb http://deb.debian.org/debian bookworm main contrib\n"
                "deb-src http://deb.debian.org/debian bookworm main\n"
                "deb [arch=amd64 signed-by=/k.gpg] http://mirror/debian bookworm-updates main\n",
                "bookworm"),
            (Lines{entry("http://deb.debian.org/debian", "bookworm"),
                   entry("http://mirror/debian", "bookworm-updates", "/k.gpg")}));
}

TEST(AptSources, stanzas_are_taken_with_each_uri_and_suite) {
  EXPECT_EQ(
      debian_sources(
          "Types: deb\n# a comment\nURIs: http://a/debian http://b/debian\nSuites: bookworm "
          "bookworm-updates\n"
          "Components: main\nSigned-By: /k.gpg\n\n"
          "Types: deb\nURIs: http://a/security\nSuites: bookworm-security\nComponents: main\n",
          "bookworm"),
      (Lines{entry("http://a/debian", "bookworm", "/k.gpg"),
             entry("http://a/debian", "bookworm-updates", "/k.gpg"),
             entry("http://b/debian", "bookworm", "/k.gpg"),
             entry("http://b/debian", "bookworm-updates", "/k.gpg"),
             entry("http://a/security", "bookworm-security")}));
}

TEST(AptSources, other_vendors_releases_and_disabled_entries_are_not) {
  EXPECT_EQ(debian_sources(
                "deb https://packages.cloud.google.com/apt cloud-sdk-bookworm main\n"
                "deb https://download.docker.com/linux/debian bookworm stable\n"
                "deb http://deb.debian.org/debian trixie main\n"
                "deb http://deb.debian.org/debian bookworm-backports main\n"
                "deb [broken http://x bookworm main\n"
                "deb\n\n"
                "Types: deb\nURIs: http://x\nSuites: bookworm\nComponents: main\nEnabled: no\n\n"
                "Types: deb-src\nURIs: http://x\nSuites: bookworm\nComponents: main\n",
                "bookworm"),
            Lines{});
}

TEST(AptSources, this_machine_always_has_a_source) {
  EXPECT_FALSE(host_debian_sources("bookworm").empty());
}

TEST(AptSources, proxies_and_date_checks_pass_on_and_hooks_do_not) {
  EXPECT_EQ(acquire_options("APT \"\";\n"
                            "APT::Update::Post-Invoke:: \"rm x\";\n"
                            "Acquire::http::Proxy \"http://proxy:3128\";\n"
                            "Acquire::http \"\";\n"
                            "Acquire::Check-Valid-Until \"false\";\n"
                            "Acquire::cdrom::mount \"/media\";\n"
                            "DPkg::Pre-Install-Pkgs \"x\";\n"),
            "Acquire::http::Proxy \"http://proxy:3128\";\nAcquire::Check-Valid-Until \"false\";\n");
}

}  // namespace
}  // namespace sallyport::driver
