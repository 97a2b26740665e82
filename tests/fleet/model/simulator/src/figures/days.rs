//! A simulated day.

use serde_json::{Value, json};

use super::{Run, round};
use crate::config::{Config, Intensity};

const HOUR_S: f64 = 3_600.0;

/// Simulates a day and returns results by hour, starting at midnight.
pub(super) fn day(run: &mut Run, config: Config) -> Value {
    let Intensity::Constant(busiest) = config.intensity else { return Value::Null };
    let intensity = Intensity::Daily(busiest - 1.0);
    // The warm-up fills the memory, and ends pauses that started on the previous evening.
    let config = Config { intensity, settle_s: 6.0 * HOUR_S, window_s: 24.0 * HOUR_S, step_s: HOUR_S, ..config };
    let report = run("a day", config.clone());
    let hour = |(number, step): (usize, &crate::report::Step)| {
        json!({
            "hour": number % 24,
            "executions_per_s": round(step.latency.total() as f64 / HOUR_S),
            "miss_share": round(step.misses as f64 / step.latency.total() as f64),
            "p50_ms": round(step.latency.quantile(0.5) * 1e3),
            "p99_ms": round(step.latency.quantile(0.99) * 1e3),
        })
    };
    let hours: Vec<Value> = report.timeline.iter().enumerate().skip(6).map(hour).collect();
    json!({ "sessions": config.sessions, "nodes": config.nodes, "hours": hours })
}
