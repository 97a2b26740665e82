//! The report of `--serve`, in JSON and as a table.

use std::fmt::Write as _;

use serde::Serialize;

use super::client::LoadResult;
use crate::report::{Align, Machine, bytes, rounded, table};

/// The results of one server.
#[derive(Debug, Serialize)]
pub(super) struct ServeReport {
    machine: Machine,
    /// The number of workers; 0 means none, and `None` the server's default.
    workers: Option<usize>,
    /// The memory of the server process, followed by each worker's, in bytes. Includes a share of the shared memory.
    pub(super) server_bytes: Vec<u64>,
    results: Vec<Line>,
}

/// The results of a case for one number of connections.
#[derive(Debug, Serialize)]
pub(super) struct Line {
    case: &'static str,
    connections: usize,
    n: usize,
    refused: usize,
    per_second: f64,
    p50_ms: f64,
    p99_ms: f64,
}

impl Line {
    pub(super) fn new(case: &'static str, connections: usize, measured: &LoadResult) -> Self {
        let n = measured.samples.len();
        let count = u32::try_from(n).unwrap_or(u32::MAX);
        Self {
            case,
            connections,
            n,
            refused: measured.refused,
            per_second: rounded(f64::from(count) / measured.time.as_secs_f64(), 0),
            p50_ms: rounded(measured.samples.percentile_ms(50), 3),
            p99_ms: rounded(measured.samples.percentile_ms(99), 3),
        }
    }
}

impl ServeReport {
    pub(super) fn new(machine: Machine, workers: Option<usize>) -> Self {
        Self { machine, workers, server_bytes: Vec::new(), results: Vec::new() }
    }

    pub(super) fn add(&mut self, line: Line) {
        self.results.push(line);
    }

    /// Formats the report as a table.
    pub(super) fn rendered(&self) -> String {
        let Machine { cpu, threads, memory_bytes, os, load_average, glovebox, .. } = &self.machine;
        let mut text = format!("glovebox {glovebox} on {cpu}, {threads} threads, {}, {os}\n", bytes(*memory_bytes));
        if self.machine.is_busy() {
            let _ = writeln!(
                text,
                "the machine is busy (load average {load_average}), so the times and the ratios are unreliable"
            );
        }
        text.push('\n');
        let head = ["CASE", "CONNECTIONS", "ANSWERS", "REFUSED", "A SECOND", "P50 MS", "P99 MS"].map(str::to_owned);
        let lines = self.results.iter().map(|line| {
            [
                line.case.into(),
                line.connections.to_string(),
                line.n.to_string(),
                line.refused.to_string(),
                format!("{:.0}", line.per_second),
                format!("{:.3}", line.p50_ms),
                format!("{:.3}", line.p99_ms),
            ]
        });
        let rows: Vec<[String; 7]> = std::iter::once(head).chain(lines).collect();
        let right = Align::Right;
        text.push_str(&table([Align::Left, right, right, right, right, right, right], &rows));
        if let Some((server, workers)) = self.server_bytes.split_first() {
            let _ = write!(text, "\nmemory of the server: {}", bytes(*server));
            for worker in workers {
                let _ = write!(text, ", of a worker {}", bytes(*worker));
            }
            text.push('\n');
        }
        text
    }
}
