//! The failure of one zone, a third of the nodes.

use serde_json::{Value, json};

use super::{Run, round};
use crate::config::{Config, Failure, Persistence, Placement};
use crate::inputs::Inputs;
use crate::report::{Report, Step};

const FAILS_S: f64 = 300.0;

/// Simulates the failure with different numbers of nodes, save policies, placements and limits on the wait.
pub(super) fn failures(run: &mut Run, config: Config, inputs: &Inputs) -> Value {
    let fleet = &inputs.fleet;
    let lazily = Failure { at_s: FAILS_S, zones: fleet.zones, noticed_s: fleet.noticed_s, resume_all: None };
    let at_once = Failure { resume_all: Some(1e6), ..lazily };
    let in_turns = Failure { resume_all: Some(2.0), ..lazily };
    let every = Persistence::Every;
    let coalesced = Persistence::Coalesced { idle_s: 60.0, at_most: 64, full_every: None };
    let bounded = Persistence::Coalesced { idle_s: 60.0, at_most: 8, full_every: Some(16) };
    // A session only leaves the node that has it in memory under very high load.
    let stay = Placement::Warm { at_most: 16 };
    let all = [
        ("resumed on demand", 100, lazily, None, every, config.placement),
        ("resumed on demand, saved once idle", 100, lazily, None, coalesced, config.placement),
        ("resumed on demand, differences saved once idle or 8 behind", 100, lazily, None, bounded, config.placement),
        ("all resumed at once", 100, at_once, None, every, config.placement),
        ("all resumed, 2/s on each node", 100, in_turns, None, every, config.placement),
        ("60% of the nodes, resumed on demand", 60, lazily, None, every, config.placement),
        ("60% of the nodes, differences saved once idle or 8 behind", 60, lazily, None, bounded, config.placement),
        ("60% of the nodes, all resumed at once", 60, at_once, None, every, config.placement),
        ("60% of the nodes, all resumed, 2/s on each node", 60, in_turns, None, every, config.placement),
        ("45% of the nodes, resumed on demand", 45, lazily, None, every, config.placement),
        ("45% of the nodes, refused if the wait exceeds 1 s", 45, lazily, Some(1.0), every, config.placement),
        ("45% of the nodes, sessions stay", 45, lazily, None, every, stay),
        ("45% of the nodes, sessions stay, refused if the wait exceeds 1 s", 45, lazily, Some(1.0), every, stay),
        ("45% of the nodes, sessions stay, saved once idle", 45, lazily, None, coalesced, stay),
        ("45% of the nodes, sessions stay, differences saved once idle or 8 behind", 45, lazily, None, bounded, stay),
    ];
    let each = |(name, percent, failure, shed_s, persistence, placement)| {
        let nodes = config.nodes * percent / 100;
        let config = Config {
            placement,
            nodes,
            persistence,
            failure: Some(failure),
            shed_s,
            step_s: 10.0,
            settle_s: 120.0,
            window_s: 480.0,
            ..config.clone()
        };
        let report = run(name, config.clone());
        timeline(name, &config, &report)
    };
    all.into_iter().map(each).collect()
}

fn timeline(name: &str, config: &Config, report: &Report) -> Value {
    let first = (config.settle_s / config.step_s) as usize;
    let fails = (FAILS_S / config.step_s) as usize;
    let p99 = |step: &Step| step.latency.quantile(0.99);
    let before = report.timeline[first..fails].iter().map(p99).fold(0.0, f64::max);
    let last_bad = report.timeline.iter().rposition(|step| p99(step) > 1.5 * before);
    // The fleet has recovered when p99 stays within 1.5 times its worst value before the failure. If the last step
    // exceeds that, the fleet has not recovered.
    let back_s = match last_bad {
        Some(step) if step + 1 == report.timeline.len() => Value::Null,
        Some(step) => json!(round(((step + 1) as f64 * config.step_s - FAILS_S).max(0.0))),
        None => json!(0.0),
    };
    let steps = &report.timeline[first..];
    let after = &report.timeline[fails..];
    let answered: u64 = after.iter().map(|step| step.latency.total()).sum();
    let refused: u64 = after.iter().map(|step| step.refused).sum();
    json!({
        "name": name,
        "nodes": config.nodes,
        "retried": report.retried,
        "p99_before_ms": round(before * 1e3),
        "p99_worst_ms": round(after.iter().map(p99).fold(0.0, f64::max) * 1e3),
        "back_s": back_s,
        "refused_share": round(refused as f64 / (answered + refused) as f64),
        "resumed_ahead": report.timeline.iter().map(|step| step.resumed_ahead).sum::<u64>(),
        "most_resumed_per_s": round(after.iter().map(|step| step.misses + step.resumed_ahead).max().unwrap_or(0) as f64 / config.step_s),
        "step_s": config.step_s,
        "begin_s": config.settle_s - FAILS_S,
        "p99_ms": steps.iter().map(|step| round(p99(step) * 1e3)).collect::<Vec<_>>(),
        "resumed_per_s": steps.iter().map(|step| round((step.misses + step.resumed_ahead) as f64 / config.step_s)).collect::<Vec<_>>(),
    })
}
