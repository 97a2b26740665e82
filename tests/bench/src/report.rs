//! The report, in JSON and as aligned tables, with the machine that is measured.

use std::{collections::BTreeMap, fmt::Write as _, fs, thread::available_parallelism};

use glovebox::RuntimeInfo;
use serde::Serialize;

use crate::{cases::RuntimeSamples, rival::Rival, samples::Samples};

/// Cases that produce a ready interpreter, compared with starting the installed one.
const AGAINST_RIVAL: [&str; 5] = ["fresh", "live", "process", "fork", "resume"];
/// Cases that add work to an execution in a session, compared with an execution without that work.
const AGAINST_LIVE: [&str; 2] = ["checkpoint", "hibernate"];

/// The results of one benchmark run.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    pub(crate) machine: Machine,
    results: Vec<ResultLine>,
    ratios: Vec<Ratio>,
    differences: Vec<Difference>,
    /// The memory of live sessions.
    sessions: Vec<SessionMemory>,
    /// The sizes of suspended executions.
    suspended: Vec<SuspendedSize>,
    /// Executions per second in the parallel cases. The JSON contains their ratio instead.
    #[serde(skip)]
    rates: Vec<(String, f64)>,
}

#[derive(Debug, Serialize)]
struct ResultLine {
    case: &'static str,
    runtime: String,
    n: usize,
    p50_ms: f64,
    p99_ms: f64,
}

#[derive(Debug, Serialize)]
struct Ratio {
    case: &'static str,
    runtime: String,
    against: String,
    ratio: f64,
}

/// The difference between the median times of two cases.
#[derive(Debug, Serialize)]
struct Difference {
    case: &'static str,
    runtime: String,
    against: &'static str,
    difference_us: f64,
}

/// The anonymous memory per session, after a few executions in each.
#[derive(Debug, Serialize)]
struct SessionMemory {
    runtime: String,
    count: u64,
    bytes_each: u64,
}

/// The size of a suspended execution after `answered` answered calls.
#[derive(Debug, Serialize)]
struct SuspendedSize {
    runtime: String,
    answered: u64,
    bytes: u64,
}

impl Report {
    pub(crate) fn new(machine: Machine) -> Self {
        Self {
            machine,
            results: Vec::new(),
            ratios: Vec::new(),
            differences: Vec::new(),
            sessions: Vec::new(),
            suspended: Vec::new(),
            rates: Vec::new(),
        }
    }

    /// Adds the measurements of one runtime.
    pub(crate) fn add(&mut self, runtime: &RuntimeInfo, rival: Option<&Rival>, measured: &RuntimeSamples) {
        let cases = measured.cases();
        for &(case, samples) in &cases {
            self.result(case, &runtime.name, samples);
        }
        if let Some(rival) = rival {
            if !self.results.iter().any(|line| line.runtime == rival.name) {
                self.result("process", rival.name, &measured.rival);
            }
            let theirs = measured.rival.percentile_ms(50);
            for &(case, samples) in cases.iter().filter(|(case, _)| AGAINST_RIVAL.contains(case)) {
                self.ratio(case, &runtime.name, rival.name, theirs, samples.percentile_ms(50));
            }
            if !self.results.iter().any(|line| line.runtime == rival.name && line.case == "work") {
                self.result("work", rival.name, &measured.rival_work);
            }
            let (theirs, ours) = (measured.rival_work.percentile_ms(50), measured.work.percentile_ms(50));
            self.ratio("work", &runtime.name, rival.name, theirs, ours);
        }
        let live = measured.live.percentile_ms(50);
        for &(case, samples) in cases.iter().filter(|(case, _)| AGAINST_LIVE.contains(case)) {
            self.ratio(case, &runtime.name, "live", live, samples.percentile_ms(50));
        }
        let (without, with) = (measured.journal.calls.percentile_ms(50), measured.journal.journal.percentile_ms(50));
        self.ratio("journal", &runtime.name, "calls", without, with);
        if let Some(component) = &measured.component {
            let difference_ms = component.percentile_ms(50) - measured.fresh.percentile_ms(50);
            self.differences.push(Difference {
                case: "component",
                runtime: runtime.name.clone(),
                against: "fresh",
                difference_us: rounded(difference_ms * 1000.0, 1),
            });
        }
        let others =
            [("component_awaited", &measured.component_awaited), ("component_async", &measured.component_async)];
        for (case, samples) in others {
            let (Some(component), Some(samples)) = (&measured.component, samples) else { continue };
            let difference_ms = samples.percentile_ms(50) - component.percentile_ms(50);
            self.differences.push(Difference {
                case,
                runtime: runtime.name.clone(),
                against: "component",
                difference_us: rounded(difference_ms * 1000.0, 1),
            });
        }
        self.suspended.extend(measured.suspended.iter().map(|suspended| SuspendedSize {
            runtime: runtime.name.clone(),
            answered: suspended.answered,
            bytes: suspended.bytes,
        }));
        let (rate_1, rate_n) = (measured.parallel_1.rate(), measured.parallel_n.rate());
        self.ratio("parallel_n", &runtime.name, "parallel_1", rate_n, rate_1);
        let threads = self.machine.threads;
        self.rates.push((format!("{}, 1 thread", runtime.name), rate_1));
        self.rates.push((format!("{}, {threads} threads", runtime.name), rate_n));
        self.rates.push((format!("{}, {} threads", runtime.name, 2 * threads), measured.parallel_2n.rate()));
        let (count, bytes) = (measured.many.count, measured.many.bytes);
        if let Some(bytes_each) = bytes.checked_div(count) {
            self.sessions.push(SessionMemory { runtime: runtime.name.clone(), count, bytes_each });
        }
    }

    fn result(&mut self, case: &'static str, runtime: &str, samples: &Samples) {
        let (p50_ms, p99_ms) = (rounded(samples.percentile_ms(50), 4), rounded(samples.percentile_ms(99), 4));
        self.results.push(ResultLine { case, runtime: runtime.to_owned(), n: samples.len(), p50_ms, p99_ms });
    }

    fn ratio(&mut self, case: &'static str, runtime: &str, against: &str, above: f64, below: f64) {
        if below > 0.0 {
            self.ratios.push(Ratio {
                case,
                runtime: runtime.to_owned(),
                against: against.to_owned(),
                ratio: rounded(above / below, 2),
            });
        }
    }

    pub(crate) fn rendered(&self) -> String {
        let Machine { cpu, threads, memory_bytes, os, load_average, glovebox, rivals } = &self.machine;
        let mut text = format!("glovebox {glovebox} on {cpu}, {threads} threads, {}, {os}\n", bytes(*memory_bytes));
        for (name, description) in rivals {
            let _ = writeln!(text, "compared with {name} {description}");
        }
        if self.machine.is_busy() {
            let _ = writeln!(
                text,
                "the machine is busy (load average {load_average}), so the times and the ratios are unreliable"
            );
        }
        text.push('\n');
        let head = ["CASE", "RUNTIME", "RUNS", "P50 MS", "P99 MS", "TIMES FASTER"].map(str::to_owned);
        let lines = self.results.iter().map(|line| {
            let ratio = self.ratios.iter().find(|ratio| ratio.case == line.case && ratio.runtime == line.runtime);
            let difference =
                self.differences.iter().find(|other| other.case == line.case && other.runtime == line.runtime);
            let faster = match (ratio, difference) {
                (Some(Ratio { ratio, against, .. }), _) => format!("{ratio:.2} than {against}"),
                (_, Some(Difference { difference_us, against, .. })) => format!("({difference_us:+} µs on {against})"),
                (None, None) => String::new(),
            };
            [
                line.case.into(),
                line.runtime.clone(),
                line.n.to_string(),
                format!("{:.3}", line.p50_ms),
                format!("{:.3}", line.p99_ms),
                faster,
            ]
        });
        let rows: Vec<[String; 6]> = std::iter::once(head).chain(lines).collect();
        text.push_str(&table([Align::Left, Align::Left, Align::Right, Align::Right, Align::Right, Align::Left], &rows));
        text.push('\n');
        let head = ["FRESH RUNS", "A SECOND"].map(str::to_owned);
        let rates = self.rates.iter().map(|(name, rate)| [name.clone(), format!("{rate:.0}")]);
        let rows: Vec<[String; 2]> = std::iter::once(head).chain(rates).collect();
        text.push_str(&table([Align::Left, Align::Right], &rows));
        text.push('\n');
        let head = ["LIVE SESSIONS", "MEMORY OF EACH"].map(str::to_owned);
        let held =
            self.sessions.iter().map(|held| [format!("{} of {}", held.count, held.runtime), bytes(held.bytes_each)]);
        let rows: Vec<[String; 2]> = std::iter::once(head).chain(held).collect();
        text.push_str(&table([Align::Left, Align::Right], &rows));
        text.push('\n');
        let head = ["SUSPENDED EXECUTIONS", "SIZE"].map(str::to_owned);
        let sizes = self.suspended.iter().map(|SuspendedSize { runtime, answered, bytes: size }| {
            [format!("{runtime}, answered calls: {answered}"), bytes(*size)]
        });
        let rows: Vec<[String; 2]> = std::iter::once(head).chain(sizes).collect();
        text.push_str(&table([Align::Left, Align::Right], &rows));
        text
    }
}

/// Rounds to `digits` decimal places.
pub(super) fn rounded(value: f64, digits: i32) -> f64 {
    let factor = 10_f64.powi(digits);
    (value * factor).round() / factor
}

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

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Align {
    Left,
    Right,
}

/// Formats rows in aligned columns.
pub(crate) fn table<const N: usize>(aligns: [Align; N], rows: &[[String; N]]) -> String {
    let mut widths = [0; N];
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let mut out = String::new();
    for row in rows {
        let mut line = String::new();
        for ((cell, width), align) in row.iter().zip(widths).zip(aligns) {
            let _ = match align {
                Align::Left => write!(line, "{cell:<width$}  "),
                Align::Right => write!(line, "{cell:>width$}  "),
            };
        }
        let _ = writeln!(out, "{}", line.trim_end());
    }
    out
}

/// Formats a number of bytes, such as `25.1 MiB`.
pub(crate) fn bytes(count: u64) -> String {
    indicatif::BinaryBytes(count).to_string()
}
