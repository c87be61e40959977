// SPDX-License-Identifier: Apache-2.0
// Order matters: descriptors are closed before the file system goes, no_new_privs comes before the
// two that need it, and the system call filter is last because the other stages use calls that it
// forbids.
#include "firewall/privileges.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <linux/landlock.h>
#include <seccomp.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <memory>
#include <span>

#include "base/log.h"
#include "base/sanitizers.h"
#include "firewall/control.h"

namespace sallyport::firewall {

namespace {

// 1. Nobody of the same uid may look into this process, and no core is written: it will hold
// credentials (I3).
Result<> stay_private() {
  if (::prctl(PR_SET_DUMPABLE, 0) != 0) return fail_errno("PR_SET_DUMPABLE");
  const rlimit none{0, 0};
  if (::setrlimit(RLIMIT_CORE, &none) != 0) return fail_errno("RLIMIT_CORE");
  return {};
}

// 2. Nothing inherited but what firewall/control.h lists. Each connection needs two descriptors:
// all that we may have.
Result<> settle_descriptors() {
  if (::syscall(SYS_close_range, static_cast<unsigned>(control::kInheritedEnd), ~0U, 0U) != 0)
    return fail_errno("close_range");
  for (int fd = control::kControl; fd < control::kInheritedEnd; ++fd)
    ::fcntl(fd, F_SETFD, FD_CLOEXEC);
  rlimit files{};
  if (::getrlimit(RLIMIT_NOFILE, &files) != 0) return fail_errno("RLIMIT_NOFILE");
  files.rlim_cur = files.rlim_max;
  if (::setrlimit(RLIMIT_NOFILE, &files) != 0) return fail_errno("RLIMIT_NOFILE");
  return {};
}

// 3. No capability, now or by any exec.
Result<> drop_capabilities() {
  for (int capability = 0; ::prctl(PR_CAPBSET_READ, capability) >= 0; ++capability)
    ::prctl(PR_CAPBSET_DROP,
            capability);  // refused without CAP_SETPCAP: then there is none to drop below
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  const std::array<__user_cap_data_struct, 2> none{};
  if (::syscall(SYS_capset, &header, none.data()) != 0) return fail_errno("capset");
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return fail_errno("PR_SET_NO_NEW_PRIVS");
  return {};
}

// 4. No file system: a Landlock domain that handles every right its kernel knows and grants none. A
// kernel without Landlock leaves this to the system call filter, which has no call that takes a
// path.
Result<> leave_file_system() {
  const long abi =
      ::syscall(SYS_landlock_create_ruleset, nullptr, 0, LANDLOCK_CREATE_RULESET_VERSION);
  if (abi < 1) {
    log::warn("this kernel has no Landlock");
    return {};
  }
  // Rights by the ABI that brought them (the headers of Debian 12 end at ABI 2): 13 at first, then
  // REFER, TRUNCATE, IOCTL_DEV.
  struct {
    std::uint64_t handled_access_fs;
    std::uint64_t handled_access_net;
    std::uint64_t scoped;
  } ruleset{};
  std::uint64_t rights = 13;
  if (abi >= 2) ++rights;
  if (abi >= 3) ++rights;
  if (abi >= 5) ++rights;
  ruleset.handled_access_fs = (std::uint64_t{1} << rights) - 1;
  // Network rights stay: dialling any port is the worker's work. Signals to and abstract sockets of
  // others do not (ABI 6).
  std::size_t size = sizeof ruleset.handled_access_fs;
  if (abi >= 6) {
    ruleset.scoped = 3;
    size = sizeof ruleset;
  }
  const int fd = static_cast<int>(::syscall(SYS_landlock_create_ruleset, &ruleset, size, 0));
  if (fd < 0) return fail_errno("landlock_create_ruleset");
  const long done = ::syscall(SYS_landlock_restrict_self, fd, 0);
  const int error = errno;
  ::close(fd);
  if (done != 0) return fail_errno("landlock_restrict_self", error);
  return {};
}

// 5. The system calls that are left, by who needs them. Anything else ends the process.
constexpr int kConnections[] =
    {  // net/reactor, listener, dial, splice; firewall/opening, refusal, tcp_session
        SCMP_SYS(epoll_create1), SCMP_SYS(epoll_ctl), SCMP_SYS(epoll_wait),  SCMP_SYS(epoll_pwait),
        SCMP_SYS(accept4),       SCMP_SYS(connect),   SCMP_SYS(getsockname), SCMP_SYS(getsockopt),
        SCMP_SYS(setsockopt),    SCMP_SYS(recvfrom),  SCMP_SYS(sendto),      SCMP_SYS(splice),
        SCMP_SYS(pipe2),         SCMP_SYS(shutdown),  SCMP_SYS(close),       SCMP_SYS(fcntl)};
constexpr int kControlAndLogs[] = {  // control_channel, audit, base/log, kernel_log
    SCMP_SYS(recvmsg), SCMP_SYS(sendmsg), SCMP_SYS(read),  SCMP_SYS(readv),
    SCMP_SYS(write),   SCMP_SYS(writev),  SCMP_SYS(fstat), SCMP_SYS(newfstatat)};
constexpr int kDns[] = {  // dns_service and libunbound: upstream queries from ports of its own
    SCMP_SYS(bind),     SCMP_SYS(listen),  SCMP_SYS(getpeername), SCMP_SYS(recvmmsg),
    SCMP_SYS(sendmmsg), SCMP_SYS(ioctl),   SCMP_SYS(poll),        SCMP_SYS(ppoll),
    SCMP_SYS(select),   SCMP_SYS(pselect6)};
constexpr int kAsio[] = {  // timers and wake-ups of the io_context
    SCMP_SYS(timerfd_create), SCMP_SYS(timerfd_settime), SCMP_SYS(eventfd2), SCMP_SYS(accept)};
constexpr int kRuntime[] = {  // glibc: memory, time, randomness, threads, the ways to end
    SCMP_SYS(mmap),
    SCMP_SYS(munmap),
    SCMP_SYS(mremap),
    SCMP_SYS(madvise),
    SCMP_SYS(brk),
    SCMP_SYS(futex),
    SCMP_SYS(clock_gettime),
    SCMP_SYS(gettimeofday),
    SCMP_SYS(time),
    SCMP_SYS(clock_nanosleep),
    SCMP_SYS(getrandom),
    SCMP_SYS(rt_sigaction),
    SCMP_SYS(rt_sigprocmask),
    SCMP_SYS(rt_sigreturn),
    SCMP_SYS(sigaltstack),
    SCMP_SYS(getpid),
    SCMP_SYS(gettid),
    SCMP_SYS(tgkill),
    SCMP_SYS(restart_syscall),
    SCMP_SYS(sched_yield),
    SCMP_SYS(getuid),
    SCMP_SYS(geteuid),
    SCMP_SYS(getrlimit),
    SCMP_SYS(sysinfo),
    SCMP_SYS(uname),
    SCMP_SYS(membarrier),
    SCMP_SYS(exit),
    SCMP_SYS(exit_group)};
// Libraries that look for a file (time zone, hosts, CPU count) are told that there is none.
constexpr int kNoFiles[] = {SCMP_SYS(open),       SCMP_SYS(openat), SCMP_SYS(access),
                            SCMP_SYS(faccessat2), SCMP_SYS(stat),   SCMP_SYS(readlink),
                            SCMP_SYS(readlinkat), SCMP_SYS(statx)};

Result<> filter_system_calls() {
  const std::unique_ptr<void, void (*)(scmp_filter_ctx)> filter(
      ::seccomp_init(SCMP_ACT_KILL_PROCESS), ::seccomp_release);
  if (!filter) return fail(Code::internal, "seccomp_init");
  // A tree instead of a chain; calls without conditions are answered from the kernel's bitmap
  // anyway.
  (void)::seccomp_attr_set(filter.get(), SCMP_FLTATR_CTL_OPTIMIZE, 2);
  int failed = 0;
  const auto rule = [&](std::uint32_t action, int call) {
    if (const int error = ::seccomp_rule_add(filter.get(), action, call, 0)) failed = -error;
  };
  for (const auto calls :
       {std::span<const int>(kConnections), std::span<const int>(kControlAndLogs),
        std::span<const int>(kDns), std::span<const int>(kAsio), std::span<const int>(kRuntime)}) {
    for (const int call : calls) rule(SCMP_ACT_ALLOW, call);
  }
  for (const int call : kNoFiles) rule(SCMP_ACT_ERRNO(EACCES), call);
  const auto rule_if = [&](std::uint32_t action, int call, scmp_arg_cmp condition) {
    if (const int error = ::seccomp_rule_add_exact(filter.get(), action, call, 1, condition))
      failed = -error;
  };
  // Sockets: only of the two families it dials with. libunbound probes for others.
  for (const scmp_datum_t family : {AF_INET, AF_INET6})
    rule_if(SCMP_ACT_ALLOW, SCMP_SYS(socket), {0, SCMP_CMP_EQ, family, 0});
  for (const scmp_datum_t family : {AF_UNIX, AF_NETLINK})
    rule_if(SCMP_ACT_ERRNO(EACCES), SCMP_SYS(socket), {0, SCMP_CMP_EQ, family, 0});
  // Memory never becomes code; limits are read, not set.
  rule_if(SCMP_ACT_ALLOW, SCMP_SYS(mprotect), {2, SCMP_CMP_MASKED_EQ, PROT_EXEC, 0});
  rule_if(SCMP_ACT_ALLOW, SCMP_SYS(prlimit64), {2, SCMP_CMP_EQ, 0, 0});
  if (failed != 0) return fail_errno("seccomp_rule_add", failed);
  if (const int error = ::seccomp_load(filter.get()); error != 0)
    return fail_errno("seccomp_load", -error);
  return {};
}

}  // namespace

Result<> give_up_privileges() {
  for (const auto stage :
       {stay_private, settle_descriptors, drop_capabilities, leave_file_system}) {
    if (auto done = stage(); !done) return done;
  }
  if (kAddressSanitizer || kThreadSanitizer) {
    log::warn(
        "built with a sanitizer: the system call filter is left out");  // their run-times need many
                                                                        // more calls
    return {};
  }
  return filter_system_calls();
}

}  // namespace sallyport::firewall
