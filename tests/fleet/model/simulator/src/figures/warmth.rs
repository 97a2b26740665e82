//! The effects of memory, and of the time that sessions stay in memory.

use serde_json::{Value, json};

use super::{Run, compared, round};
use crate::config::{Config, UserKind};
use crate::gaps::{Distribution, Gaps, Part};
use crate::inputs::Inputs;

const TIMES_S: [f64; 9] = [5.0, 15.0, 60.0, 180.0, 600.0, 1_800.0, 3_600.0, 14_400.0, 86_400.0];
const GIB: f64 = (1u64 << 30) as f64;

/// Compares limits on the time that idle sessions stay in memory. The memory itself is unlimited.
pub(super) fn times(run: &mut Run, config: Config) -> Value {
    let each = |ttl_s: f64| {
        let config = Config { ttl_s, memory_bytes: 1e15, window_s: 300.0, ..config.clone() };
        let report = run(&format!("in memory for {ttl_s} s"), config.clone());
        let mut value = compared("ttl_s", json!(ttl_s), &config, &report);
        value["closed_miss_share"] = json!(round(miss_share(&config.kinds, ttl_s, 1.0 + busier(&config))));
        value
    };
    TIMES_S.into_iter().map(each).collect()
}

fn busier(config: &Config) -> f64 {
    match config.intensity {
        crate::config::Intensity::Constant(intensity) => intensity - 1.0,
        crate::config::Intensity::Daily(_) => 0.0,
    }
}

/// Returns the share of executions whose session was idle for longer than `ttl_s`. Each kind is weighted by its rate.
fn miss_share(kinds: &[UserKind], ttl_s: f64, intensity: f64) -> f64 {
    let (mut missed, mut all) = (0.0, 0.0);
    for kind in kinds {
        let gaps = Gaps::new(&kind.gaps, intensity);
        let rate = kind.share / gaps.mean_s();
        missed += rate * gaps.longer(ttl_s);
        all += rate;
    }
    missed / all
}

fn warm_share(kinds: &[UserKind], ttl_s: f64, intensity: f64) -> f64 {
    kinds.iter().map(|kind| kind.share * Gaps::new(&kind.gaps, intensity).within(ttl_s)).sum()
}

/// Compares distributions of people's pauses that have the same median but different tails. Uses only the closed-form
/// model, without simulation.
pub(super) fn tails(inputs: &Inputs) -> Value {
    let intensity = 1.0 + inputs.day.amplitude;
    let with = |name: &str, change: &dyn Fn(Distribution) -> Distribution| {
        let part = |part: &Part| Part { time: if part.daily { change(part.time) } else { part.time }, ..*part };
        let kind = |kind: &UserKind| UserKind { gaps: kind.gaps.iter().map(part).collect(), ..kind.clone() };
        let kinds: Vec<UserKind> = inputs.kind.iter().map(kind).collect();
        let rate: f64 = kinds.iter().map(|kind| kind.share / Gaps::new(&kind.gaps, intensity).mean_s()).sum();
        let times = TIMES_S.map(|ttl_s| {
            json!({
                "ttl_s": ttl_s,
                "miss_share": round(miss_share(&kinds, ttl_s, intensity)),
                "warm_share": round(warm_share(&kinds, ttl_s, intensity)),
            })
        });
        json!({ "pauses": name, "executions_per_s": round(rate * f64::from(inputs.fleet.sessions)), "times": times })
    };
    let mut all: Vec<Value> = [0.5, 0.7, 1.0, 1.5, 2.0]
        .into_iter()
        .map(|tail| {
            with(&format!("Lomax, tail {tail}"), &|time| match time {
                Distribution::Lomax { median_s, max_s, .. } => Distribution::Lomax { tail, median_s, max_s },
                other => other,
            })
        })
        .collect();
    all.push(with("log-normal, sigma 2", &|time| match time {
        Distribution::Lomax { median_s, .. } => Distribution::LogNormal { median_s, sigma: 2.0 },
        other => other,
    }));
    Value::Array(all)
}

/// Compares amounts of memory per node without a time limit for idle sessions. Adds Che's approximation.
pub(super) fn budgets(run: &mut Run, config: Config) -> Value {
    let each = |gib: f64| {
        let config = Config { memory_bytes: gib * GIB, ttl_s: 1e9, window_s: 300.0, ..config.clone() };
        let report = run(&format!("{gib} GiB for sessions"), config.clone());
        let mut value = compared("memory_gib", json!(gib), &config, &report);
        let intensity = 1.0 + busier(&config);
        value["che_miss_share"] =
            json!(round(miss_share(&config.kinds, characteristic_s(&config, intensity), intensity)));
        value
    };
    [0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0].into_iter().map(each).collect()
}

/// Returns Che's characteristic time: the time that an unused session stays in full memory.
pub fn characteristic_s(config: &Config, intensity: f64) -> f64 {
    let mean_bytes: f64 = config.classes.iter().map(|class| class.share * class.warm_bytes).sum();
    let fits = config.memory_bytes * f64::from(config.nodes) / mean_bytes / f64::from(config.sessions);
    let gaps: Vec<(f64, Gaps)> =
        config.kinds.iter().map(|kind| (kind.share, Gaps::new(&kind.gaps, intensity))).collect();
    let warm = |time_s: f64| gaps.iter().map(|(share, gaps)| share * gaps.within(time_s)).sum::<f64>();
    let (mut low, mut high) = (1e-3, 1e7);
    for _ in 0..100 {
        let middle = libm::sqrt(low * high);
        if warm(middle) < fits { low = middle } else { high = middle }
    }
    high
}

/// Returns the number of sessions that fit into a node's memory, for each runtime and size.
pub(super) fn held(inputs: &Inputs) -> Value {
    let memory = inputs.node.memory_bytes - inputs.node.reserved_bytes;
    let each = |measured: &crate::inputs::Measured| {
        json!({
            "runtime": measured.runtime,
            "own_mib": measured.own_mib,
            "warm": (memory / measured.warm_bytes).floor(),
            "stored_bytes": measured.blob_bytes,
        })
    };
    let mean = |of: &dyn Fn(&crate::config::Class) -> f64| {
        inputs.classes().iter().map(|class| class.share * of(class)).sum::<f64>()
    };
    json!({
        "by_size": inputs.session.iter().map(each).collect::<Vec<_>>(),
        "mean_warm_bytes": round(mean(&|class| class.warm_bytes)),
        "mean_blob_bytes": round(mean(&|class| class.blob_bytes)),
        "mean_delta_bytes": round(mean(&|class| class.delta_bytes)),
        "mean_hibernate_ms": round(1e3 * mean(&|class| class.hibernate_s)),
        "mean_resume_ms": round(1e3 * mean(&|class| class.resume_s)),
        "warm": (memory / mean(&|class| class.warm_bytes)).floor(),
    })
}
