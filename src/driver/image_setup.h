// SPDX-License-Identifier: Apache-2.0
// What is done to a fresh Debian tree to make it the base image (SB-070 to SB-073): the script that
// mmdebstrap runs as a customize hook, with the tree as $1.
#pragma once

#include <string_view>

namespace sallyport::driver {

inline constexpr std::string_view kSuite = "bookworm";
inline constexpr std::string_view kPackages =
    "bash,ca-certificates,coreutils,curl,dnsutils,findutils,git,iproute2,iputils-ping,jq,less,nano,"
    "netcat-openbsd,openssl,"
    "passwd,postgresql-client,procps,psmisc,python3,rsync,sudo,unzip,xz-utils,zip";
inline constexpr std::string_view kPath =
    "/vercel/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

inline constexpr std::string_view kSetupScript = R"sh(#!/bin/sh
set -eu
root=$1

chroot "$root" groupadd --gid 1000 ubuntu
chroot "$root" useradd --uid 1000 --gid 1000 --create-home --home-dir /vercel --shell /bin/bash ubuntu
chroot "$root" install -d -o ubuntu -g ubuntu /vercel/bin
chmod 0755 "$root/vercel"

# sudo without password, environment kept (PATH too), HOME of the target.
cat > "$root/etc/sudoers.d/sandbox" <<'EOF'
Defaults !env_reset, !secure_path, !mail_badpass, always_set_home
ubuntu ALL=(ALL:ALL) NOPASSWD: ALL
EOF
chmod 0440 "$root/etc/sudoers.d/sandbox"
chroot "$root" visudo -cq

ln -sf python3 "$root/usr/bin/python"
cat > "$root/etc/profile.d/sandbox.sh" <<'EOF'
case ":$PATH:" in *:/vercel/bin:*) ;; *) PATH="/vercel/bin:$PATH" ;; esac
EOF

# Nothing of the machine that built it. The agent writes resolv.conf and the host name when a sandbox starts.
rm -f "$root/etc/resolv.conf" "$root/etc/hostname" "$root/etc/apt/apt.conf.d/99mmdebstrap"
: > "$root/etc/resolv.conf"
printf 'sandbox\n' > "$root/etc/hostname"
printf '127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n' > "$root/etc/hosts"
: > "$root/etc/machine-id"
rm -rf "$root"/var/log/apt "$root"/var/log/*.log "$root"/var/cache/apt/*.bin "$root"/var/cache/debconf/*-old \
  "$root"/var/cache/ldconfig/aux-cache "$root"/usr/share/doc/*/changelog* "$root"/tmp/* "$root"/run/*
)sh";

}  // namespace sallyport::driver
