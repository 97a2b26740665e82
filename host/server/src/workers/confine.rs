//! Confines a worker before the engine starts.

use rustix::process::{Resource, Rlimit, Signal, getrlimit, setrlimit};

use super::measure::{Confinement, Measure, Reach};

/// Confines this process. Call it while there is only one thread: landlock and seccomp restrict the calling thread and
/// those it will start.
pub fn confine(reach: &Reach) -> Confinement {
    let resource_limits = Measure::of(limit_resources(reach));
    let (landlock, seccomp) = (landlock(reach), seccomp());
    Confinement { resource_limits, no_new_privileges: no_new_privileges(), landlock, seccomp }
}

/// Asks the kernel to kill this process when the thread that started it ends.
pub(crate) fn die_with_parent() -> std::io::Result<()> {
    #[cfg(target_os = "linux")]
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
    #[cfg(not(target_os = "linux"))]
    let _ = Signal::KILL;
    Ok(())
}

fn limit_resources(reach: &Reach) -> rustix::io::Result<()> {
    lower(Resource::Core, 0)?;
    lower(Resource::Nofile, reach.open_files)?;
    lower(Resource::Data, reach.memory_bytes)
}

/// Lowers a limit. Never raises it.
fn lower(resource: Resource, to: u64) -> rustix::io::Result<()> {
    let limit = getrlimit(resource);
    let most = limit.maximum.map_or(to, |maximum| maximum.min(to));
    setrlimit(resource, Rlimit { current: Some(most), maximum: Some(most) })
}

/// Landlock and seccomp both set `no_new_privs`. The kernel reports the result in `/proc/self/status`.
#[cfg(target_os = "linux")]
fn no_new_privileges() -> Measure {
    match std::fs::read_to_string("/proc/self/status") {
        Ok(status) if status.lines().any(|line| line == "NoNewPrivs:\t1") => Measure::On,
        Ok(_) => Measure::Off("neither landlock nor seccomp has set it".into()),
        Err(error) => Measure::Off(format!("cannot read `/proc/self/status`: {error}")),
    }
}

#[cfg(target_os = "linux")]
fn landlock(reach: &Reach) -> Measure {
    match super::files::restrict(reach) {
        Ok(measure) => measure,
        Err(error) => Measure::Off(error.to_string()),
    }
}

#[cfg(target_os = "linux")]
fn seccomp() -> Measure {
    Measure::of(super::calls::restrict())
}

#[cfg(not(target_os = "linux"))]
fn no_new_privileges() -> Measure {
    Measure::Off(ONLY_LINUX.into())
}

#[cfg(not(target_os = "linux"))]
fn landlock(_: &Reach) -> Measure {
    Measure::Off(ONLY_LINUX.into())
}

#[cfg(not(target_os = "linux"))]
fn seccomp() -> Measure {
    Measure::Off(ONLY_LINUX.into())
}

#[cfg(not(target_os = "linux"))]
const ONLY_LINUX: &str = "supported only on Linux";
