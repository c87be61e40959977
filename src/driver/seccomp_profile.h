// SPDX-License-Identifier: Apache-2.0
// Which system calls a container may make. An allow list: what is not named gets ENOSYS, as on an
// older kernel, so that programs fall back; what is refused on purpose and has callers that expect
// a refusal gets EPERM.
//
// Left out, and why:
//   bpf, perf_event_open, userfaultfd, io_uring_*   large kernel surface, a history of holes,
//   io_uring also slips past this filter kexec*, *_module, reboot's relatives, swapon, acct, iopl,
//   ioperm, settimeofday ...  the machine's, not a sandbox's keyctl, add_key, request_key keyrings
//   are not fully namespaced syslog                                           the kernel's log is
//   the host's (SB-001) open_by_handle_at                                reaches files past the
//   mount tree modify_ldt, 32-bit and x32 calls                 a second, less tested entry into
//   the kernel socket families other than unix, inet, inet6, netlink and packet   AF_VSOCK talks to
//   the hypervisor, the rest is rare code
// What sudo, apt, nested user namespaces and container engines need (mount, unshare, setns, clone
// with new namespaces, chroot, ptrace, seccomp) is allowed: it acts on the sandbox's own namespaces
// only.
#pragma once

#include "base/json.h"

namespace sallyport::driver {

[[nodiscard]] json::object seccomp_profile();  // linux.seccomp of an OCI config

}  // namespace sallyport::driver
