// SPDX-License-Identifier: Apache-2.0
#include "driver/seccomp_profile.h"

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <sstream>
#include <string>
#include <string_view>

namespace sallyport::driver {
namespace {

// Names that this or that architecture or libseccomp does not know are skipped by the runtimes.
constexpr std::string_view kAllowed = R"(
  accept accept4 access adjtimex alarm arch_prctl bind brk cachestat capget capset chdir chmod chown chroot clock_adjtime
  clock_getres clock_gettime clock_nanosleep clone clone3 close close_range connect copy_file_range creat dup dup2 dup3
  epoll_create epoll_create1 epoll_ctl epoll_pwait epoll_pwait2 epoll_wait eventfd eventfd2 execve execveat exit exit_group
  faccessat faccessat2 fadvise64 fallocate fanotify_init fanotify_mark fchdir fchmod fchmodat fchmodat2 fchown fchownat
  fcntl fdatasync fgetxattr flistxattr flock fork fremovexattr fsconfig fsetxattr fsmount fsopen fspick fstat fstatfs fsync
  ftruncate futex futex_requeue futex_wait futex_waitv futex_wake futimesat get_mempolicy get_robust_list get_thread_area
  getcpu getcwd getdents getdents64 getegid geteuid getgid getgroups getitimer getpeername getpgid getpgrp getpid getppid
  getpriority getrandom getresgid getresuid getrlimit getrusage getsid getsockname getsockopt gettid gettimeofday getuid
  getxattr getxattrat inotify_add_watch inotify_init inotify_init1 inotify_rm_watch io_cancel io_destroy io_getevents
  io_pgetevents io_setup io_submit ioctl ioprio_get ioprio_set kcmp kill landlock_add_rule landlock_create_ruleset
  landlock_restrict_self lchown lgetxattr link linkat listen listmount listxattr listxattrat llistxattr lremovexattr lseek
  lsetxattr lstat madvise map_shadow_stack mbind membarrier memfd_create memfd_secret migrate_pages mincore mkdir mkdirat
  mknod mknodat mlock mlock2 mlockall mmap mount mount_setattr move_mount move_pages mprotect mq_getsetattr mq_notify mq_open
  mq_timedreceive mq_timedsend mq_unlink mremap mseal msgctl msgget msgrcv msgsnd msync munlock munlockall munmap
  name_to_handle_at nanosleep newfstatat open open_tree openat openat2 pause pidfd_getfd pidfd_open pidfd_send_signal pipe
  pipe2 pivot_root pkey_alloc pkey_free pkey_mprotect poll ppoll prctl pread64 preadv preadv2 prlimit64 process_madvise
  process_mrelease process_vm_readv process_vm_writev pselect6 ptrace pwrite64 pwritev pwritev2 read readahead readlink
  readlinkat readv reboot recvfrom recvmmsg recvmsg remap_file_pages removexattr removexattrat rename renameat renameat2
  restart_syscall riscv_flush_icache rmdir rseq rt_sigaction rt_sigpending rt_sigprocmask rt_sigqueueinfo rt_sigreturn
  rt_sigsuspend rt_sigtimedwait rt_tgsigqueueinfo sched_get_priority_max sched_get_priority_min sched_getaffinity
  sched_getattr sched_getparam sched_getscheduler sched_rr_get_interval sched_setaffinity sched_setattr sched_setparam
  sched_setscheduler sched_yield seccomp select semctl semget semop semtimedop sendfile sendmmsg sendmsg sendto
  set_mempolicy set_mempolicy_home_node set_robust_list set_thread_area set_tid_address setdomainname setfsgid setfsuid
  setgid setgroups sethostname setitimer setns setpgid setpriority setregid setresgid setresuid setreuid setrlimit setsid
  setsockopt setuid setxattr setxattrat shmat shmctl shmdt shmget shutdown sigaltstack signalfd signalfd4 socketpair splice
  stat statfs statmount statx symlink symlinkat sync sync_file_range sync_file_range2 syncfs sysinfo tee tgkill time
  timer_create timer_delete timer_getoverrun timer_gettime timer_settime timerfd_create timerfd_gettime timerfd_settime
  times tkill truncate umask umount2 uname unlink unlinkat unshare utime utimensat utimes vfork vhangup vmsplice wait4
  waitid write writev)";

constexpr std::string_view kNotPermitted = R"(
  acct bpf clock_settime delete_module finit_module init_module ioperm iopl kexec_file_load kexec_load lookup_dcookie
  open_by_handle_at perf_event_open quotactl quotactl_fd settimeofday swapoff swapon syslog userfaultfd)";

// linux/personality.h: PER_LINUX, PER_LINUX32, UNAME26 with either, ADDR_NO_RANDOMIZE (debuggers),
// "just asking".
constexpr std::array<std::uint64_t, 6> kPersonalities = {0,       8,       0x20000,
                                                         0x20008, 0x40000, 0xffffffff};
constexpr std::array<int, 5> kFamilies = {AF_UNIX, AF_INET, AF_INET6, AF_NETLINK, AF_PACKET};
constexpr int kLastFamily = 64;  // well past AF_MAX; beyond it the default applies

json::array names(std::string_view text) {
  json::array out;
  std::istringstream in{std::string(text)};
  for (std::string name; in >> name;) out.emplace_back(name);
  return out;
}

// The comparison is of 64 bits: a value with rubbish in its upper half matches no rule and gets the
// default.
json::object when_first_is(std::string_view call, std::uint64_t value, json::object rule) {
  rule["names"] = json::array{call};
  rule["args"] = json::array{json::object{{"index", 0}, {"value", value}, {"op", "SCMP_CMP_EQ"}}};
  return rule;
}

json::object allow() { return {{"action", "SCMP_ACT_ALLOW"}}; }
json::object refuse(int error) { return {{"action", "SCMP_ACT_ERRNO"}, {"errnoRet", error}}; }

}  // namespace

json::object seccomp_profile() {
  json::array rules;
  json::object allowed = allow();
  allowed["names"] = names(kAllowed);
  rules.push_back(std::move(allowed));
  json::object refused = refuse(EPERM);
  refused["names"] = names(kNotPermitted);
  rules.push_back(std::move(refused));
  for (const auto value : kPersonalities)
    rules.push_back(when_first_is("personality", value, allow()));
  for (int family = 0; family <= kLastFamily; ++family) {
    const bool wanted = std::ranges::find(kFamilies, family) != kFamilies.end();
    rules.push_back(
        when_first_is("socket", std::uint64_t(family), wanted ? allow() : refuse(EAFNOSUPPORT)));
  }
  return {{"defaultAction", "SCMP_ACT_ERRNO"},
          {"defaultErrnoRet", ENOSYS},
#if defined(__x86_64__)
          {"architectures", json::array{"SCMP_ARCH_X86_64"}},
#elif defined(__aarch64__)
          {"architectures", json::array{"SCMP_ARCH_AARCH64"}},
#endif
          {"syscalls", std::move(rules)}};
}

}  // namespace sallyport::driver
