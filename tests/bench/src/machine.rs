//! Describes the machine that is measured.

use std::{collections::BTreeMap, fs, thread::available_parallelism};

use serde::Serialize;

/// The machine, its load, and the versions of Glovebox and of the installed interpreters.
#[derive(Debug, Serialize)]
pub(crate) struct Machine {
    pub(crate) cpu: String,
    pub(crate) threads: usize,
    pub(crate) memory_bytes: u64,
    pub(crate) os: String,
    /// The system's load average over the last minute, read before the measurement. See [`Self::is_busy`].
    pub(crate) load_average: f64,
    pub(crate) glovebox: &'static str,
    /// The versions of the installed interpreters, by name.
    pub(crate) rivals: BTreeMap<String, String>,
}

impl Machine {
    pub(crate) fn describe() -> Self {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let cpuinfo = read("/proc/cpuinfo");
        let cpu =
            cpuinfo.lines().find_map(|line| line.strip_prefix("model name")).and_then(|rest| rest.split_once(':'));
        let meminfo = read("/proc/meminfo");
        let memory_kib: Option<u64> = meminfo
            .lines()
            .find_map(|line| line.strip_prefix("MemTotal:"))
            .and_then(|rest| rest.split_whitespace().next()?.parse().ok());
        let kernel = read("/proc/sys/kernel/osrelease");
        Self {
            cpu: cpu.map_or_else(|| std::env::consts::ARCH.into(), |(_, name)| name.trim().to_owned()),
            threads: available_parallelism().map_or(1, usize::from),
            memory_bytes: memory_kib.unwrap_or(0).saturating_mul(1024),
            os: format!("{} {} {}", std::env::consts::OS, kernel.trim(), std::env::consts::ARCH),
            load_average: read("/proc/loadavg")
                .split_whitespace()
                .next()
                .and_then(|first| first.parse().ok())
                .unwrap_or(0.0),
            glovebox: env!("CARGO_PKG_VERSION"),
            rivals: BTreeMap::new(),
        }
    }

    /// Returns `true` if other load makes the measurements unreliable.
    pub(crate) fn is_busy(&self) -> bool {
        self.load_average > self.threads as f64 / 2.0
    }
}
