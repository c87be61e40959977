# SPDX-License-Identifier: Apache-2.0
# Debian 12 packages, by what they are for, and the function that installs what is missing. Sourced by quickstart and check.

build_packages=(
  clang-19 lld-19 cmake ninja-build ccache pkg-config git
  libboost1.81-dev libboost-json1.81-dev libssl-dev libfmt-dev libspdlog-dev libnghttp2-dev libre2-dev libidn2-dev
  libunbound-dev nettle-dev libevent-dev libldns-dev libnftables-dev libnl-3-dev libnl-route-3-dev libseccomp-dev libsqlite3-dev libcli11-dev
  zlib1g-dev libgtest-dev libgmock-dev librapidcheck-dev libbenchmark-dev
)
run_packages=(crun runc mmdebstrap squashfs-tools erofs-utils e2fsprogs nftables iproute2 util-linux procps ca-certificates)
# The lab: a small internet.
lab_packages=(python3 python3-cryptography python3-dnspython postgresql postgresql-client)
check_packages=(clang-format-19 libclang-rt-19-dev python3-pytest busybox-static conntrack netcat-openbsd dnsutils curl openssl tcpdump)

# install_missing PACKAGE...: quiet when there is nothing to do. Services that packages would start stay off: only the
# programs are wanted.
install_missing() {
  local missing
  mapfile -t missing < <(comm -23 <(printf '%s\n' "$@" | sort -u) \
    <(dpkg-query -W -f '${db:Status-Abbrev} ${Package}\n' "$@" 2>/dev/null | awk '$1 == "ii" {print $2}' | sort -u))
  ((${#missing[@]})) || return 0
  echo "installing ${missing[*]}"
  local policy=/usr/sbin/policy-rc.d made=
  [ -e $policy ] || { printf '#!/bin/sh\nexit 101\n' >$policy && chmod +x $policy && made=1; }
  local status=0
  { DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "${missing[@]}" ||
    { apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "${missing[@]}"; }; } || status=$?
  [ -z "$made" ] || rm -f $policy
  return $status
}
