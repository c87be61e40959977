// SPDX-License-Identifier: Apache-2.0
// The guest's own files that depend on where it runs: name resolution and host name. The agent
// writes them from inside, so that they lie on the sandbox's disk, count against its limit and may
// be changed by its root like any other file; the supervisor never follows a path that the guest
// can shape.
#pragma once

#include <string>
#include <string_view>

namespace sallyport::guest {

struct GuestNames {
  std::string hostname;
  std::string resolvers;  // addresses, comma between
};

// From SALLYPORT_HOSTNAME and SALLYPORT_RESOLVERS, which are taken out of the environment.
[[nodiscard]] GuestNames take_guest_names();
// <etc>/resolv.conf is replaced, <etc>/hostname too, <etc>/hosts gets the name if it lacks it. What
// cannot be written (an odd or full disk) is left: the sandbox still runs.
void write_guest_files(const std::string& etc, const GuestNames& names);

[[nodiscard]] std::string resolv_conf(std::string_view resolvers);

}  // namespace sallyport::guest
