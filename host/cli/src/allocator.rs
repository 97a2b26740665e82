//! Makes glibc's allocator return freed memory to the system in servers and their workers.

use std::{
    env,
    ffi::OsString,
    os::unix::process::CommandExt as _,
    process::Command,
    sync::{Arc, atomic::AtomicBool},
};

use signal_hook::{consts::SIGPIPE, flag};

use crate::{own_program, terminal::note};

/// glibc returns buffers of at least this size in bytes to the system when they are freed. By default, it raises the
/// threshold up to 32 MiB and retains memory after a burst of large requests.
const MMAP_THRESHOLD: (&str, &str) = ("MALLOC_MMAP_THRESHOLD_", "1048576");
/// Set in a restarted process. The loader removes `MALLOC_MMAP_THRESHOLD_` from the environment of programs with file
/// capabilities, which would otherwise restart forever.
const RESTARTED: &str = "GLOVEBOX_RESTARTED";

/// Returns the environment variable that sets the threshold. The operator's own value takes precedence.
pub(crate) fn mmap_threshold() -> (OsString, OsString) {
    let (name, value) = MMAP_THRESHOLD;
    (name.into(), env::var_os(name).unwrap_or_else(|| value.into()))
}

/// Restarts this command with the threshold in its environment, because glibc reads the variable only when a process
/// starts. Does nothing without glibc, if the variable is set, or after a restart. Must precede the first thread and
/// the first open file. If the restart fails, the command continues with glibc's default.
pub(crate) fn restart_with_threshold(args: &[OsString]) {
    let uses_glibc = cfg!(all(target_os = "linux", target_env = "gnu"));
    if !uses_glibc || [MMAP_THRESHOLD.0, RESTARTED].iter().any(|name| env::var_os(name).is_some()) {
        return;
    }
    let Some((name, rest)) = args.split_first() else { return };
    let mut command = Command::new(own_program());
    let error = command.arg0(name).args(rest).envs([MMAP_THRESHOLD, (RESTARTED, "1")]).exec();
    // A failed `exec` has reset SIGPIPE to its default action, which would end the server when a client disconnects.
    let _ = flag::register(SIGPIPE, Arc::new(AtomicBool::new(false)));
    note(&format!("cannot restart to set `{}`, so the server may retain freed memory: {error}", MMAP_THRESHOLD.0));
}
