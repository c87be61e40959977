// SPDX-License-Identifier: Apache-2.0
// Finds the Debian mirror that this machine's apt uses, so that an image is built from the same
// one. Pure text work.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace sallyport::driver {

// From the text of one file under /etc/apt: its one-line or deb822 entries of the Debian release
// `suite`, `suite`-updates and `suite`-security with component main, as one-line entries.
// Everything else (other vendors, other releases) is left out.
[[nodiscard]] std::vector<std::string> debian_sources(std::string_view file,
                                                      std::string_view suite);
// Of the output of `apt-config dump`: the lines an image build needs too (proxies, date checks,
// retries).
[[nodiscard]] std::string acquire_options(std::string_view apt_config_dump);
// Both from this machine; the public mirror if nothing is found.
[[nodiscard]] std::vector<std::string> host_debian_sources(std::string_view suite);

}  // namespace sallyport::driver
