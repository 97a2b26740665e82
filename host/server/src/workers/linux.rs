//! Linux confinement of a process: files (landlock) and system calls (seccomp).

use std::{collections::BTreeMap, path::Path};

use landlock::{
    ABI, Access as _, AccessFs, AccessNet, CompatLevel, Compatible as _, Ruleset, RulesetAttr as _,
    RulesetCreatedAttr as _, RulesetError, RulesetStatus, Scope, path_beneath_rules,
};
use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, apply_filter,
};

use super::confine::{AllowedPrograms, ConfinedAccess, Measure};

/// The requested landlock version. On an older kernel, only the subset that the kernel supports is enforced.
const WANTED: ABI = ABI::V6;

/// Restricts this thread, and threads that it starts later, to the files in `access` and to executing `program`. Also
/// denies TCP, signals to other processes, and connections to their abstract Unix sockets.
pub(super) fn restrict_files(access: &ConfinedAccess, program: Option<&Path>) -> Result<Measure, RulesetError> {
    let read = AccessFs::ReadFile | AccessFs::ReadDir;
    let write = AccessFs::from_all(WANTED)
        & !(AccessFs::Execute | AccessFs::MakeSock | AccessFs::MakeChar | AccessFs::MakeBlock);
    let status = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(WANTED))?
        .handle_access(AccessNet::from_all(WANTED))?
        .scope(Scope::from_all(WANTED))?
        .create()?
        .add_rules(path_beneath_rules(&access.read, read))?
        .add_rules(path_beneath_rules(&access.write, write))?
        .add_rules(path_beneath_rules(program, AccessFs::Execute | AccessFs::ReadFile))?
        .restrict_self()?;
    Ok(match status.ruleset {
        RulesetStatus::FullyEnforced => Measure::On,
        RulesetStatus::PartiallyEnforced => {
            Measure::Partly("this kernel's landlock predates Linux 6.12 and may not restrict TCP or signals".into())
        }
        RulesetStatus::NotEnforced => Measure::Off("landlock is unavailable or disabled in this kernel".into()),
    })
}

/// The system calls that are allowed with any arguments. The engine and its threads need them for memory, for files
/// that are open or that landlock allows, and for inherited sockets. None of these calls can connect a socket to
/// another process, send to an address, start a program, or access another process's memory. [`program`] allows a few
/// other calls with certain arguments. The rest fail with EPERM.
const CALLS: &[i64] = &[
    // Memory. The engine maps compiled code first and then makes it executable.
    libc::SYS_brk,
    libc::SYS_madvise,
    libc::SYS_memfd_create,
    libc::SYS_mincore,
    libc::SYS_mlock,
    libc::SYS_mmap,
    libc::SYS_mprotect,
    libc::SYS_mremap,
    libc::SYS_msync,
    libc::SYS_munlock,
    libc::SYS_munmap,
    libc::SYS_membarrier,
    // Threads, and signals to this process.
    libc::SYS_exit,
    libc::SYS_exit_group,
    libc::SYS_futex,
    libc::SYS_get_robust_list,
    libc::SYS_getcpu,
    libc::SYS_gettid,
    libc::SYS_getpid,
    libc::SYS_restart_syscall,
    libc::SYS_rseq,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigpending,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_rt_sigtimedwait,
    libc::SYS_sched_getaffinity,
    libc::SYS_sched_yield,
    libc::SYS_set_robust_list,
    libc::SYS_set_tid_address,
    libc::SYS_sigaltstack,
    // Time and randomness.
    libc::SYS_clock_getres,
    libc::SYS_clock_gettime,
    libc::SYS_clock_nanosleep,
    libc::SYS_getrandom,
    libc::SYS_gettimeofday,
    libc::SYS_nanosleep,
    // Process identity, resource usage and system information.
    libc::SYS_getegid,
    libc::SYS_geteuid,
    libc::SYS_getgid,
    libc::SYS_getppid,
    libc::SYS_getuid,
    libc::SYS_getrusage,
    libc::SYS_sysinfo,
    libc::SYS_uname,
    // File and directory access.
    libc::SYS_close,
    libc::SYS_copy_file_range,
    libc::SYS_dup,
    libc::SYS_dup3,
    libc::SYS_faccessat,
    libc::SYS_faccessat2,
    libc::SYS_fallocate,
    libc::SYS_fchmod,
    libc::SYS_fchmodat,
    libc::SYS_fcntl,
    libc::SYS_fdatasync,
    libc::SYS_flock,
    libc::SYS_fstat,
    libc::SYS_fstatfs,
    libc::SYS_fsync,
    libc::SYS_ftruncate,
    libc::SYS_getcwd,
    libc::SYS_getdents64,
    libc::SYS_linkat,
    libc::SYS_lseek,
    libc::SYS_mkdirat,
    libc::SYS_newfstatat,
    libc::SYS_openat,
    libc::SYS_openat2,
    libc::SYS_pread64,
    libc::SYS_preadv,
    libc::SYS_preadv2,
    libc::SYS_pwrite64,
    libc::SYS_pwritev,
    libc::SYS_pwritev2,
    libc::SYS_read,
    libc::SYS_readlinkat,
    libc::SYS_readv,
    libc::SYS_renameat,
    libc::SYS_renameat2,
    libc::SYS_statfs,
    libc::SYS_statx,
    libc::SYS_unlinkat,
    libc::SYS_utimensat,
    libc::SYS_write,
    libc::SYS_writev,
    // The inherited socket, and event polling.
    libc::SYS_epoll_create1,
    libc::SYS_epoll_ctl,
    libc::SYS_epoll_pwait,
    libc::SYS_epoll_pwait2,
    libc::SYS_eventfd2,
    libc::SYS_getpeername,
    libc::SYS_getsockname,
    libc::SYS_getsockopt,
    libc::SYS_ppoll,
    libc::SYS_pselect6,
    libc::SYS_recvfrom,
    libc::SYS_recvmsg,
    libc::SYS_shutdown,
    // A socket pair within the process, which Tokio uses to forward signals. Also timers and pipes.
    libc::SYS_socketpair,
    libc::SYS_timerfd_create,
    libc::SYS_timerfd_settime,
    libc::SYS_pipe2,
];

/// System calls of x86-64 that newer architectures do not have.
#[cfg(target_arch = "x86_64")]
const OLD_CALLS: &[i64] = &[
    libc::SYS_access,
    libc::SYS_arch_prctl,
    libc::SYS_epoll_wait,
    libc::SYS_getdents,
    libc::SYS_lstat,
    libc::SYS_mkdir,
    libc::SYS_open,
    libc::SYS_poll,
    libc::SYS_readlink,
    libc::SYS_rename,
    libc::SYS_rmdir,
    libc::SYS_select,
    libc::SYS_stat,
    libc::SYS_time,
    libc::SYS_unlink,
];
#[cfg(not(target_arch = "x86_64"))]
const OLD_CALLS: &[i64] = &[];

/// Allowed `ioctl`s: the page map scan, which reports the pages that a guest has written, and calls common to all
/// streams.
const IOCTLS: &[u64] = &[PAGEMAP_SCAN, FIONBIO, FIOCLEX, FIONREAD, TCGETS];
/// `_IOWR('f', 16, struct pm_scan_arg)` with a struct of 96 bytes.
const PAGEMAP_SCAN: u64 = 0xc060_6610;
const FIONBIO: u64 = 0x5421;
const FIOCLEX: u64 = 0x5451;
const FIONREAD: u64 = 0x541b;
const TCGETS: u64 = 0x5401;

/// Allowed `prctl`s: naming threads and mappings.
const PRCTLS: &[u64] = &[PR_SET_NAME, PR_GET_NAME, PR_SET_VMA];
const PR_SET_NAME: u64 = 15;
const PR_GET_NAME: u64 = 16;
const PR_SET_VMA: u64 = 0x5356_4d41;

/// The flag that makes `clone` create a thread instead of a process.
const CLONE_THREAD: u64 = 0x0001_0000;

/// The reason why the seccomp filter could not be built or installed.
#[derive(Debug, thiserror::Error)]
pub(super) enum CallsError {
    #[error(transparent)]
    Filter(#[from] BackendError),
    #[error(transparent)]
    Install(#[from] seccompiler::Error),
}

/// Restricts this thread, and threads that it starts later, to the allowed system calls.
pub(super) fn restrict_calls(programs: AllowedPrograms) -> Result<(), CallsError> {
    let program = program(programs)?;
    // The flags of `clone3` are in memory, which a filter cannot read. On ENOSYS, the C library assumes an old kernel
    // and falls back to `clone`.
    let absent: BpfProgram = SeccompFilter::new(
        BTreeMap::from([(libc::SYS_clone3, Vec::new())]),
        SeccompAction::Allow,
        SeccompAction::Errno(38),
        std::env::consts::ARCH.try_into()?,
    )?
    .try_into()?;
    apply_filter(&absent)?;
    Ok(apply_filter(&program)?)
}

fn program(programs: AllowedPrograms) -> Result<BpfProgram, CallsError> {
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> =
        CALLS.iter().chain(OLD_CALLS).map(|call| (*call, Vec::new())).collect();
    if programs == AllowedPrograms::Program {
        rules.insert(libc::SYS_execve, Vec::new());
    }
    rules.insert(libc::SYS_ioctl, one_of(1, IOCTLS)?);
    rules.insert(libc::SYS_prctl, one_of(0, PRCTLS)?);
    let pid = u64::from(std::process::id());
    // `getrlimit` and `setrlimit` pass 0 for the calling process. With another ID, the call could change the limits of
    // the server and of other workers.
    rules.insert(libc::SYS_prlimit64, one_of(0, &[0])?);
    // `send`, which writes to the inherited socket, passes no address. With an address, the call could reach datagram
    // sockets of other processes by path.
    let no_address = SeccompCondition::new(4, SeccompCmpArgLen::Qword, SeccompCmpOp::Eq, 0)?;
    rules.insert(libc::SYS_sendto, vec![SeccompRule::new(vec![no_address])?]);
    // `abort` and `raise` send signals to their own process.
    rules.insert(libc::SYS_tgkill, one_of(0, &[pid])?);
    rules.insert(libc::SYS_kill, one_of(0, &[pid])?);
    let thread = SeccompCondition::new(0, SeccompCmpArgLen::Qword, SeccompCmpOp::MaskedEq(CLONE_THREAD), CLONE_THREAD)?;
    rules.insert(libc::SYS_clone, vec![SeccompRule::new(vec![thread])?]);
    // Allowed here, so that the ENOSYS of the other filter takes effect: the kernel applies the strictest result of all
    // filters.
    rules.insert(libc::SYS_clone3, Vec::new());
    let filter =
        SeccompFilter::new(rules, SeccompAction::Errno(1), SeccompAction::Allow, std::env::consts::ARCH.try_into()?)?;
    Ok(filter.try_into()?)
}

/// Returns the rules that allow a call if the argument equals one of the values.
fn one_of(argument: u8, values: &[u64]) -> Result<Vec<SeccompRule>, BackendError> {
    let rule = |value: &u64| {
        let condition = SeccompCondition::new(argument, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, *value)?;
        SeccompRule::new(vec![condition])
    };
    values.iter().map(rule).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_that_affect_other_processes_are_not_allowed() {
        for call in [
            libc::SYS_socket,
            libc::SYS_connect,
            libc::SYS_bind,
            libc::SYS_accept4,
            libc::SYS_execve,
            libc::SYS_execveat,
            libc::SYS_ptrace,
            libc::SYS_process_vm_readv,
            libc::SYS_process_vm_writev,
            libc::SYS_pidfd_open,
            libc::SYS_pidfd_getfd,
            libc::SYS_mount,
            libc::SYS_unshare,
            libc::SYS_setns,
            libc::SYS_bpf,
            libc::SYS_io_uring_setup,
            libc::SYS_userfaultfd,
            libc::SYS_perf_event_open,
            libc::SYS_keyctl,
            libc::SYS_symlinkat,
            libc::SYS_prlimit64,
            libc::SYS_sendto,
            libc::SYS_sendmsg,
            libc::SYS_sendmmsg,
        ] {
            assert!(!CALLS.contains(&call) && !OLD_CALLS.contains(&call), "{call}");
        }
        for programs in [AllowedPrograms::Nothing, AllowedPrograms::Program] {
            let program = program(programs);
            assert!(
                program.is_ok_and(|program| program.len() < 4_096),
                "within the kernel's limit for a filter program"
            );
        }
    }
}
