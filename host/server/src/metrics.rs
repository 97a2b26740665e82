//! Metrics in the OpenMetrics text format.

use std::{fmt, sync::atomic::AtomicI64};

use prometheus_client::{
    encoding::{EncodeLabelSet, EncodeLabelValue, LabelValueEncoder, text::encode},
    metrics::{
        counter::Counter,
        family::Family,
        gauge::Gauge,
        histogram::{Histogram, exponential_buckets},
    },
    registry::{Registry, Unit},
};

use crate::{Door, audit::AuditedResult};

/// A label value that is known at compile time. Text from guests or clients is never a label.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct StaticLabel(&'static str);

impl EncodeLabelValue for StaticLabel {
    fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> Result<(), fmt::Error> {
        self.0.encode(encoder)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RunLabels {
    door: StaticLabel,
    language: StaticLabel,
    outcome: StaticLabel,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RefusalLabels {
    door: StaticLabel,
    code: StaticLabel,
}

/// The metrics of a service or of a tenant since it was created.
#[derive(Debug)]
pub(crate) struct Metrics {
    registry: Registry,
    seconds: Family<RunLabels, Histogram, fn() -> Histogram>,
    fuel: Counter,
    refused: Family<RefusalLabels, Counter>,
    running: Gauge<i64, AtomicI64>,
    waiting: Gauge<i64, AtomicI64>,
    sessions: Gauge<i64, AtomicI64>,
    session_bytes: Gauge<i64, AtomicI64>,
    workers: Gauge<i64, AtomicI64>,
    worker_restarts: Counter,
}

impl Metrics {
    pub(crate) fn new() -> Self {
        let seconds = Family::new_with_constructor(seconds as fn() -> Histogram);
        let (fuel, refused) = (Counter::default(), Family::default());
        let (running, waiting, sessions, session_bytes) =
            (Gauge::default(), Gauge::default(), Gauge::default(), Gauge::default());
        let (workers, worker_restarts) = (Gauge::default(), Counter::default());
        let mut registry = Registry::with_prefix("glovebox");
        registry.register_with_unit(
            "execution",
            "Duration of executions, from the start of the guest to its end",
            Unit::Seconds,
            seconds.clone(),
        );
        registry.register("fuel", "Fuel used by executions", fuel.clone());
        registry.register("refused", "Refused requests", refused.clone());
        registry.register("running", "Running executions", running.clone());
        registry.register("waiting", "Executions waiting to run", waiting.clone());
        registry.register("live_sessions", "Sessions in memory", sessions.clone());
        registry.register_with_unit(
            "live_sessions_held",
            "Memory held by sessions",
            Unit::Bytes,
            session_bytes.clone(),
        );
        registry.register("workers", "Ready workers", workers.clone());
        registry.register("worker_restarts", "Workers started to replace workers that ended", worker_restarts.clone());
        Self { registry, seconds, fuel, refused, running, waiting, sessions, session_bytes, workers, worker_restarts }
    }

    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        // Writing to a string never fails.
        let _ = encode(&mut text, &self.registry);
        text
    }

    pub(crate) fn executed(&self, door: Door, executed: &AuditedResult) {
        let labels = RunLabels {
            door: StaticLabel(door.name()),
            language: StaticLabel(executed.language.name()),
            outcome: StaticLabel(executed.outcome),
        };
        self.seconds.get_or_create(&labels).observe(executed.duration_ms / 1e3);
        self.fuel.inc_by(executed.fuel);
    }

    pub(crate) fn refused(&self, door: Door, code: &'static str) {
        self.refused.get_or_create(&RefusalLabels { door: StaticLabel(door.name()), code: StaticLabel(code) }).inc();
    }

    /// Records the number of ready workers, and the number of restarts since the service started.
    pub(crate) fn workers(&self, ready: usize, restarts: u64) {
        self.workers.set(i64::try_from(ready).unwrap_or(i64::MAX));
        let counted = self.worker_restarts.get();
        self.worker_restarts.inc_by(restarts.saturating_sub(counted));
    }

    pub(crate) fn running(&self, change: i64) {
        self.running.inc_by(change);
    }

    pub(crate) fn waiting(&self, change: i64) {
        self.waiting.inc_by(change);
    }

    /// Records the number of live sessions, and the bytes that they hold in memory.
    pub(crate) fn sessions(&self, count: u64, bytes: u64) {
        self.sessions.set(i64::try_from(count).unwrap_or(i64::MAX));
        self.session_bytes.set(i64::try_from(bytes).unwrap_or(i64::MAX));
    }
}

/// Creates a histogram with buckets from 0.1 ms to 26 s. The default timeout of a script is 10 s.
fn seconds() -> Histogram {
    Histogram::new(exponential_buckets(0.000_1, 2.0, 19))
}
