//! What is counted, as Prometheus reads it.

use std::{fmt, sync::atomic::AtomicI64};

use glovebox::{Execution, Outcome};
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

use crate::{Door, ServiceError};

/// A word that is known when this is compiled: what guests and clients choose is never a label.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Word(&'static str);

impl EncodeLabelValue for Word {
    fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> Result<(), fmt::Error> {
        self.0.encode(encoder)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RunLabels {
    door: Word,
    language: Word,
    outcome: Word,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Refused {
    door: Word,
    code: Word,
}

/// What a service has counted since it began.
#[derive(Debug)]
pub(crate) struct Metrics {
    registry: Registry,
    seconds: Family<RunLabels, Histogram, fn() -> Histogram>,
    fuel: Counter,
    refused: Family<Refused, Counter>,
    running: Gauge<i64, AtomicI64>,
    waiting: Gauge<i64, AtomicI64>,
    sessions: Gauge<i64, AtomicI64>,
    session_bytes: Gauge<i64, AtomicI64>,
}

impl Metrics {
    pub(crate) fn new() -> Self {
        let seconds = Family::new_with_constructor(seconds as fn() -> Histogram);
        let (fuel, refused) = (Counter::default(), Family::default());
        let (running, waiting, sessions, session_bytes) =
            (Gauge::default(), Gauge::default(), Gauge::default(), Gauge::default());
        let mut registry = Registry::with_prefix("glovebox");
        registry.register_with_unit(
            "execution",
            "Time of executions, from the start of the guest to its end",
            Unit::Seconds,
            seconds.clone(),
        );
        registry.register("fuel", "Fuel that executions used", fuel.clone());
        registry.register("refused", "Requests that were not carried out", refused.clone());
        registry.register("running", "Executions that run", running.clone());
        registry.register("waiting", "Executions that wait for their turn", waiting.clone());
        registry.register("live_sessions", "Sessions in memory", sessions.clone());
        registry.register_with_unit("live_sessions_held", "What they hold", Unit::Bytes, session_bytes.clone());
        Self { registry, seconds, fuel, refused, running, waiting, sessions, session_bytes }
    }

    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        // Writing to a string fails never.
        let _ = encode(&mut text, &self.registry);
        text
    }

    pub(crate) fn executed(&self, door: Door, execution: &Execution) {
        let labels = RunLabels {
            door: Word(door.name()),
            language: Word(execution.metadata.runtime.name()),
            outcome: Word(outcome(&execution.outcome)),
        };
        self.seconds.get_or_create(&labels).observe(execution.duration.as_secs_f64());
        self.fuel.inc_by(execution.fuel_consumed);
    }

    pub(crate) fn refused(&self, door: Door, error: &ServiceError) {
        self.refused.get_or_create(&Refused { door: Word(door.name()), code: Word(error.code()) }).inc();
    }

    pub(crate) fn running(&self, change: i64) {
        self.running.inc_by(change);
    }

    pub(crate) fn waiting(&self, change: i64) {
        self.waiting.inc_by(change);
    }

    /// What sessions hold at this moment.
    pub(crate) fn sessions(&self, count: u64, bytes: u64) {
        self.sessions.set(i64::try_from(count).unwrap_or(i64::MAX));
        self.session_bytes.set(i64::try_from(bytes).unwrap_or(i64::MAX));
    }
}

/// Buckets from 0.1 ms to 26 s: a script's default limit is 10.
fn seconds() -> Histogram {
    Histogram::new(exponential_buckets(0.000_1, 2.0, 19))
}

/// An outcome's kind.
pub(crate) fn outcome(outcome: &Outcome) -> &'static str {
    match outcome {
        Outcome::Completed => "completed",
        Outcome::Exited { .. } => "exited",
        Outcome::Raised(_) => "raised",
        Outcome::Exhausted { .. } => "exhausted",
        Outcome::Cancelled => "cancelled",
        Outcome::Trapped { .. } => "trapped",
    }
}
