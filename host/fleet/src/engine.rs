//! A single-machine engine, for getting started and for small fleets: the Restate server as a child process, with its
//! data in a directory.
//!
//! For several machines, set up a Restate cluster as Restate's documentation describes.

use std::{
    fs::{DirBuilder, File},
    io,
    net::{Ipv4Addr, TcpListener},
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use glovebox::escaped;
use glovebox_runtimes::{HostProgram, ProgramSource, Progress, RuntimeError};

use crate::{FleetError, FleetUrl, client::Http};

/// Startup timeout. Startup takes about a second, or longer with a lot of data.
const START_TIMEOUT: Duration = Duration::from_secs(60);
/// Shutdown timeout.
const STOP_TIMEOUT: Duration = Duration::from_secs(20);
/// Polling interval during startup and shutdown.
const POLL: Duration = Duration::from_millis(50);
/// Number of bytes from the end of the log that a startup error shows.
const LOG_TAIL_BYTES: usize = 2_000;

/// The reason why the local engine could not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EngineError {
    /// The program cannot be fetched.
    #[error(transparent)]
    Program(Box<RuntimeError>),
    /// No download of the engine is available for this platform.
    #[error(
        "the engine can be downloaded only for Linux on x86-64; install `restate-server` and pass its path with `--restate-server`"
    )]
    Platform,
    /// A file or process operation failed.
    #[error("cannot {what}")]
    System {
        /// The operation that failed, as a verb phrase.
        what: String,
        /// The operating system's error.
        source: io::Error,
    },
    /// The engine exited, or did not respond in time.
    #[error("the engine did not start ({reason}); its log `{log}` ends with:\n{tail}", log = escaped(.log), tail = glovebox::escaped_text(.tail))]
    Begin {
        /// The exit status, or a message that names the timeout.
        reason: String,
        /// The path of the log.
        log: PathBuf,
        /// The end of the log.
        tail: String,
    },
    /// A request to the engine failed.
    #[error(transparent)]
    Ask(#[from] FleetError),
}

/// A running engine on this machine. Dropping this value stops the engine.
#[derive(Debug)]
pub struct LocalEngine {
    child: Child,
    url: FleetUrl,
}

impl LocalEngine {
    /// Starts the engine's program, and waits up to a minute until the engine responds. The engine stores its data in
    /// the directory `data`, which is created if it is missing. `ports` are the ingress port and the admin port; 0
    /// selects any free port.
    ///
    /// # Errors
    /// [`EngineError`] if the engine cannot be started, or does not respond in time.
    pub async fn start(program: &Path, data: &Path, ports: (u16, u16)) -> Result<Self, EngineError> {
        let system = |what: String| move |source| EngineError::System { what, source };
        let (ingress, admin, node) = free_ports(ports).map_err(system("find free ports".into()))?;
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(data)
            .map_err(system(format!("create the directory `{}`", escaped(data))))?;
        let (config, log) = (data.join("engine.toml"), data.join("engine.log"));
        std::fs::write(&config, config_text(ingress, admin, node, &data.join("data")))
            .map_err(system(format!("write `{}`", escaped(&config))))?;
        let output = File::create(&log).map_err(system(format!("write `{}`", escaped(&log))))?;
        let errors = output.try_clone().map_err(system("write the engine's log".into()))?;
        let child = Command::new(program)
            .arg("--no-logo")
            .arg("-c")
            .arg(&config)
            // Restate's environment variables would override the configuration.
            .env_clear()
            .envs(std::env::vars_os().filter(|(name, _)| name == "PATH" || name == "HOME" || name == "TMPDIR"))
            .current_dir(data)
            .stdin(Stdio::null())
            .stdout(output)
            .stderr(errors)
            .spawn()
            .map_err(system(format!("start `{}`", escaped(program))))?;
        let mut engine = Self { child, url: FleetUrl::local(ingress, admin) };
        engine.wait(&log).await?;
        Ok(engine)
    }

    /// Returns the URL of the engine.
    pub fn url(&self) -> &FleetUrl {
        &self.url
    }

    /// Waits until the engine responds.
    async fn wait(&mut self, log: &Path) -> Result<(), EngineError> {
        let failed = |reason: String| {
            let text = std::fs::read(log).unwrap_or_default();
            let tail = text.get(text.len().saturating_sub(LOG_TAIL_BYTES)..).unwrap_or_default();
            EngineError::Begin { reason, log: log.to_owned(), tail: String::from_utf8_lossy(tail).into_owned() }
        };
        let (http, begun) = (Http::new()?, Instant::now());
        let urls = [format!("{}/health", self.url.admin()), format!("{}/restate/health", self.url.ingress())];
        for url in urls {
            loop {
                if let Ok(Some(status)) = self.child.try_wait() {
                    return Err(failed(status.to_string()));
                }
                if http.is_healthy(&url).await {
                    break;
                }
                if begun.elapsed() > START_TIMEOUT {
                    return Err(failed(format!("no response within {} s", START_TIMEOUT.as_secs())));
                }
                tokio::time::sleep(POLL).await;
            }
        }
        Ok(())
    }
}

impl Drop for LocalEngine {
    fn drop(&mut self) {
        let pid = rustix::process::Pid::from_child(&self.child);
        // On SIGTERM, the engine flushes its data. After SIGKILL, it would have to replay its log at the next start.
        if rustix::process::kill_process(pid, rustix::process::Signal::TERM).is_ok() {
            let begun = Instant::now();
            while begun.elapsed() < STOP_TIMEOUT {
                if !matches!(self.child.try_wait(), Ok(None)) {
                    return;
                }
                std::thread::sleep(POLL);
            }
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns the requested ports, with each 0 replaced by a free port, and one additional free port.
fn free_ports((ingress, admin): (u16, u16)) -> io::Result<(u16, u16, u16)> {
    // All listeners are open at the same time, so the ports differ.
    let bind = |port| TcpListener::bind((Ipv4Addr::LOCALHOST, port));
    let held = [bind(ingress)?, bind(admin)?, bind(0)?];
    let [ingress, admin, node] = held.each_ref().map(|listener| listener.local_addr().map(|address| address.port()));
    Ok((ingress?, admin?, node?))
}

/// The number of partitions. It is small, because each partition needs memory and one machine has few processors.
const PARTITIONS: u32 = 4;
/// The memory limit for the engine's tables, in bytes. The engine's default is meant for a dedicated machine and would
/// be too large.
const ROCKSDB_BYTES: u64 = 256 << 20;

/// Formats the configuration as TOML. The engine listens on loopback only, and its telemetry is off.
fn config_text(ingress: u16, admin: u16, node: u16, data: &Path) -> String {
    let data = toml_string(&data.to_string_lossy());
    format!(
        r#"node-name = "glovebox"
cluster-name = "glovebox"
base-dir = {data}
bind-ip = "127.0.0.1"
bind-port = {node}
listen-mode = "tcp"
advertised-address = "http://127.0.0.1:{node}"
default-num-partitions = {PARTITIONS}
rocksdb-total-memory-size = "{ROCKSDB_BYTES} B"
log-format = "compact"
log-disable-ansi-codes = true
disable-telemetry = true

[worker.invoker]
http2-keep-alive-interval = "2s"
http2-keep-alive-timeout = "2s"

[admin]
bind-address = "127.0.0.1:{admin}"

[ingress]
bind-address = "127.0.0.1:{ingress}"
"#
    )
}

/// Formats text as a TOML string. TOML accepts every escape sequence that `serde_json` writes.
fn toml_string(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// The engine's program for Linux on x86-64. It is licensed under the Business Source License 1.1, which allows any use
/// except offering Restate itself as a service.
pub const PROGRAM: HostProgram = HostProgram {
    name: "restate-server",
    version: "1.7.12",
    source: ProgramSource::Npm { package: "@restatedev/restate-server-linux-x64", file: "package/bin/restate-server" },
    size_bytes: 225_600_128,
    sha256: "8597e9511a4aeb4f082c33a9f4cc62132ea1fe21289811a6e52ae3d2261a031f",
};

/// Returns the path of the engine's program, and downloads it if it is not cached. Supports only Linux on x86-64.
///
/// # Errors
/// [`EngineError::Platform`] on other platforms, [`EngineError::Program`] if it cannot be fetched.
pub fn find_program(cache_dir: &Path, progress: &dyn Progress) -> Result<PathBuf, EngineError> {
    if cfg!(not(all(target_os = "linux", target_arch = "x86_64"))) {
        return Err(EngineError::Platform);
    }
    PROGRAM.fetch(cache_dir, progress).map_err(|error: RuntimeError| EngineError::Program(Box::new(error)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directory_names_are_escaped_in_the_configuration() {
        let text = config_text(1, 2, 3, Path::new("/a \"b\"\\c"));
        assert!(text.contains(r#"base-dir = "/a \"b\"\\c""#), "{text}");
    }
}
