//! The sensitivity of the results to the assumptions.

use serde_json::{Value, json};

use super::{Run, compared, round};
use crate::config::{Class, Config, UserKind};
use crate::gaps::{Distribution, Part};

/// Simulates the fleet repeatedly, each time with one assumption changed.
pub(super) fn assumptions(run: &mut Run, config: Config) -> Value {
    let base = || Config { window_s: 1_200.0, ..config.clone() };
    let pauses = |change: &dyn Fn(Distribution) -> Distribution| {
        let part = |part: &Part| Part { time: if part.daily { change(part.time) } else { part.time }, ..*part };
        let kind = |kind: &UserKind| UserKind { gaps: kind.gaps.iter().map(part).collect(), ..kind.clone() };
        Config { kinds: config.kinds.iter().map(kind).collect(), ..base() }
    };
    let tail = |tail: f64| {
        pauses(&|time| match time {
            Distribution::Lomax { median_s, max_s, .. } => Distribution::Lomax { tail, median_s, max_s },
            other => other,
        })
    };
    let log_normal = pauses(&|time| match time {
        Distribution::Lomax { median_s, .. } => Distribution::LogNormal { median_s, sigma: 2.0 },
        other => other,
    });
    let work = |factor: f64| {
        let kind = |kind: &UserKind| UserKind { work_median_s: kind.work_median_s * factor, ..kind.clone() };
        Config { kinds: config.kinds.iter().map(kind).collect(), ..base() }
    };
    let only = |index: usize| Config { kinds: vec![UserKind { share: 1.0, ..config.kinds[index].clone() }], ..base() };
    let small = |max_bytes: f64| {
        let left: Vec<Class> = config.classes.iter().copied().filter(|class| class.warm_bytes < max_bytes).collect();
        let shares: f64 = left.iter().map(|class| class.share).sum();
        Config { classes: left.iter().map(|class| Class { share: class.share / shares, ..*class }).collect(), ..base() }
    };
    let all = [
        ("as assumed", base()),
        ("another seed", Config { seed: 2, ..base() }),
        ("a third seed", Config { seed: 3, ..base() }),
        ("pauses with tail 0.5", tail(0.5)),
        ("pauses with tail 2", tail(2.0)),
        ("pauses log-normal, sigma 2", log_normal),
        ("pauses twice as long", pauses(&|time| time.scaled(2.0))),
        ("people only", only(0)),
        ("agents' loops only", only(1)),
        ("a tenth of the computation time", work(0.1)),
        ("twice the computation time", work(2.0)),
        ("no session of 64 MiB", small(70e6)),
        ("no session above 1 MiB", small(8e6)),
    ];
    let each = |(name, config): (&str, Config)| {
        let report = run(name, config.clone());
        let mut value = compared("assumption", json!(name), &config, &report);
        // The number of nodes for a processor load of 70%, and the number for the memory, both without a failure.
        let busy = report.busy_s.iter().sum::<f64>() / config.window_s;
        let per_million = 1e6 / f64::from(config.sessions);
        value["nodes_by_processor"] = json!(round(busy / 0.7 / f64::from(config.cores) * per_million));
        value["nodes_by_memory"] =
            json!(round(report.warm_byte_s / config.window_s / config.memory_bytes * per_million));
        value
    };
    all.into_iter().map(each).collect()
}
