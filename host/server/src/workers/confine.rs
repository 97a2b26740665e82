//! Confinement that a process applies to itself: a worker before it starts the engine, and a child process before it
//! executes a helper program.

use std::path::{Path, PathBuf};

use rustix::process::{Resource, Rlimit, Signal, getrlimit, setrlimit};
use serde::{Deserialize, Serialize};

/// Confines this process. Must be called while the process has a single thread: landlock and seccomp only restrict the
/// calling thread and threads that it starts later.
pub fn confine(access: &ConfinedAccess) -> Confinement {
    let resource_limits = Measure::of(limit_resources(access));
    let (landlock, seccomp) = (landlock(access, None), seccomp(AllowedPrograms::Nothing));
    Confinement { resource_limits, no_new_privileges: no_new_privileges(), landlock, seccomp }
}

/// Like [`confine`], but for a process that then executes `program`, which inherits the confinement. The process can
/// execute only this file, and is killed when the thread that started it ends.
///
/// With landlock, the program must be statically linked, because executing a dynamic loader would be denied. The
/// process must not change its working directory afterwards.
///
/// # Errors
/// Fails if the parent-death signal or the resource limits cannot be set. The returned value reports the other
/// protections, which may be unavailable on this system.
pub fn confine_program(access: &ConfinedAccess, program: &Path) -> std::io::Result<Confinement> {
    die_with_parent()?;
    limit_resources(access)?;
    let (landlock, seccomp) = (landlock(access, Some(program)), seccomp(AllowedPrograms::Program));
    let resource_limits = Measure::On;
    Ok(Confinement { resource_limits, no_new_privileges: no_new_privileges(), landlock, seccomp })
}

/// The programs that a confined process may execute. If programs are allowed, landlock limits them to one file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AllowedPrograms {
    Nothing,
    Program,
}

/// Makes the kernel kill this process when the thread that started it ends. Has no effect on systems other than Linux.
pub(crate) fn die_with_parent() -> std::io::Result<()> {
    #[cfg(target_os = "linux")]
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
    #[cfg(not(target_os = "linux"))]
    let _ = Signal::KILL;
    Ok(())
}

fn limit_resources(access: &ConfinedAccess) -> rustix::io::Result<()> {
    lower(Resource::Core, 0)?;
    lower(Resource::Nofile, access.open_files)?;
    lower(Resource::Data, access.memory_bytes)
}

/// Sets the soft and the hard limit of a resource to `to`, or to the current hard limit if that is lower.
fn lower(resource: Resource, to: u64) -> rustix::io::Result<()> {
    let limit = getrlimit(resource);
    let max = limit.maximum.map_or(to, |maximum| maximum.min(to));
    setrlimit(resource, Rlimit { current: Some(max), maximum: Some(max) })
}

/// Checks `no_new_privs`, which both landlock and seccomp set.
#[cfg(target_os = "linux")]
fn no_new_privileges() -> Measure {
    match std::fs::read_to_string("/proc/self/status") {
        Ok(status) if status.lines().any(|line| line == "NoNewPrivs:\t1") => Measure::On,
        Ok(_) => Measure::Off("neither landlock nor seccomp has set it".into()),
        Err(error) => Measure::Off(format!("cannot read `/proc/self/status`: {error}")),
    }
}

#[cfg(target_os = "linux")]
fn landlock(access: &ConfinedAccess, program: Option<&Path>) -> Measure {
    match super::linux::restrict_files(access, program) {
        Ok(measure) => measure,
        Err(error) => Measure::Off(error.to_string()),
    }
}

#[cfg(target_os = "linux")]
fn seccomp(programs: AllowedPrograms) -> Measure {
    Measure::of(super::linux::restrict_calls(programs))
}

#[cfg(not(target_os = "linux"))]
fn no_new_privileges() -> Measure {
    Measure::Off(ONLY_LINUX.into())
}

#[cfg(not(target_os = "linux"))]
fn landlock(_: &ConfinedAccess, _: Option<&Path>) -> Measure {
    Measure::Off(ONLY_LINUX.into())
}

#[cfg(not(target_os = "linux"))]
fn seccomp(_: AllowedPrograms) -> Measure {
    Measure::Off(ONLY_LINUX.into())
}

#[cfg(not(target_os = "linux"))]
const ONLY_LINUX: &str = "supported only on Linux";

/// The files and resources that a confined process may use.
#[derive(Clone, Debug, Default)]
pub struct ConfinedAccess {
    /// Files and directories that the process may read.
    pub read: Vec<PathBuf>,
    /// Directories that the process may also write to.
    pub write: Vec<PathBuf>,
    /// Maximum private memory in bytes (`RLIMIT_DATA`).
    pub memory_bytes: u64,
    /// Maximum number of open files (`RLIMIT_NOFILE`).
    pub open_files: u64,
}

/// The state of a protection.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Measure {
    /// The protection is fully enforced.
    On,
    /// The protection is partly enforced. Contains the reason.
    Partly(String),
    /// The protection is not enforced. Contains the reason.
    Off(String),
}

/// The operating system's protections for a worker or a helper program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Confinement {
    /// Limits memory and open files, and disables core dumps.
    pub resource_limits: Measure,
    /// Prevents the process from gaining privileges by executing programs (`no_new_privs`).
    pub no_new_privileges: Measure,
    /// Allows access only to the files of interpreters and of the worker's sessions. Forbids TCP, and signals to other
    /// processes.
    pub landlock: Measure,
    /// Allows only the necessary system calls. Forbids opening sockets, starting programs and accessing other
    /// processes.
    pub seccomp: Measure,
}

impl Measure {
    pub(super) fn of<E: std::fmt::Display>(result: Result<(), E>) -> Self {
        match result {
            Ok(()) => Self::On,
            Err(error) => Self::Off(error.to_string()),
        }
    }
}

impl Confinement {
    /// Returns the names of the protections that are not fully enforced, with the reasons.
    pub(crate) fn gaps(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let all = [
            ("resource limits", &self.resource_limits),
            ("no_new_privs", &self.no_new_privileges),
            ("landlock", &self.landlock),
            ("seccomp", &self.seccomp),
        ];
        all.into_iter().filter_map(|(name, measure)| match measure {
            Measure::On => None,
            Measure::Partly(reason) | Measure::Off(reason) => Some((name, reason.as_str())),
        })
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::{
        env, fs,
        io::{ErrorKind, Write as _},
        net::{TcpListener, TcpStream},
        os::unix::net::{UnixDatagram, UnixListener, UnixStream},
        process::Command,
        thread,
    };

    use rustix::process::{getppid, prlimit, test_kill_process};

    use super::*;

    const DIR: &str = "GLOVEBOX_TEST_CONFINED";

    #[test]
    fn confined_process_accesses_only_what_is_permitted() {
        let Some(dir) = env::var_os(DIR) else {
            let dir = tempfile::tempdir().unwrap();
            for name in ["read", "write"] {
                fs::create_dir(dir.path().join(name)).unwrap();
            }
            fs::write(dir.path().join("read/file"), "text").unwrap();
            // The test runs in a child process, because confinement cannot be undone.
            let output = Command::new(env::current_exe().unwrap())
                .args(["--exact", "workers::confine::tests::confined_process_accesses_only_what_is_permitted"])
                .args(["--nocapture", "--test-threads=1"])
                .env(DIR, dir.path())
                .output()
                .unwrap();
            let printed = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success() && printed.contains("confinement is enforced"), "{printed}");
            return;
        };
        let dir = Path::new(&dir);
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let _datagrams = UnixDatagram::bind(dir.join("write/datagrams")).unwrap();
        let access = ConfinedAccess {
            read: vec![dir.join("read"), "/proc/self".into()],
            write: vec![dir.join("write")],
            memory_bytes: 1 << 30,
            open_files: 64,
        };
        let confinement = confine(&access);
        println!("{confinement:?}");
        assert_eq!((&confinement.resource_limits, confinement.gaps().count() > 2), (&Measure::On, false));

        // These operations are permitted.
        assert_eq!(fs::read_to_string(dir.join("read/file")).unwrap(), "text");
        fs::write(dir.join("write/new"), "x").unwrap();
        fs::rename(dir.join("write/new"), dir.join("write/renamed")).unwrap();
        assert_eq!(thread::spawn(|| 7).join().unwrap(), 7);
        assert!(fs::read("/proc/self/status").is_ok());
        UnixStream::pair().unwrap().0.write_all(b"x").unwrap();

        // Memory and file descriptors are limited.
        assert!(Vec::<u8>::new().try_reserve_exact(2 << 30).is_err());
        let files: Vec<_> = (0..64).map_while(|_| fs::File::open(dir.join("read/file")).ok()).collect();
        assert!(files.len() < 64, "{}", files.len());
        drop(files);

        if confinement.landlock == Measure::On {
            for path in ["/etc/passwd", "/proc/1/status", "/"] {
                assert!(fs::read(path).is_err() && fs::read_dir(path).is_err(), "{path}");
            }
            assert!(fs::write(dir.join("read/new"), "x").is_err());
            assert!(fs::remove_file(dir.join("read/file")).is_err());
            assert!(fs::rename(dir.join("write/renamed"), dir.join("renamed")).is_err());
        }
        if confinement.seccomp == Measure::On {
            assert!(TcpStream::connect(listener.local_addr().unwrap()).is_err());
            assert!(UnixListener::bind(dir.join("write/socket")).is_err());
            assert!(Command::new("/bin/true").spawn().is_err());
            assert!(std::os::unix::fs::symlink("/etc", dir.join("write/link")).is_err());
            assert!(test_kill_process(getppid().unwrap()).is_err());
            assert!(prlimit(getppid(), Resource::Nofile, getrlimit(Resource::Nofile)).is_err());
            let sent = UnixDatagram::pair().unwrap().0.send_to(b"x", dir.join("write/datagrams"));
            assert_eq!(sent.unwrap_err().kind(), ErrorKind::PermissionDenied);
        }
        println!("confinement is enforced");
    }
}
