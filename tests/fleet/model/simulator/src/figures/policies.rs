//! The effects of the fleet's policies.

use serde_json::{Value, json};

use super::{Run, compared, summary};
use crate::config::{Config, Persistence, Placement};
use crate::inputs::Inputs;

/// Simulates the base configuration.
pub(super) fn base(run: &mut Run, config: Config) -> Value {
    let config = Config { window_s: 1_800.0, ..config };
    let report = run("the fleet", config.clone());
    Value::Object(summary(&config, &report))
}

/// Compares placement policies.
pub(super) fn placements(run: &mut Run, config: Config) -> Value {
    let Placement::Warm { at_most } = config.placement else { return Value::Null };
    let all = [
        ("random", Placement::Random),
        ("two choices", Placement::TwoChoices),
        ("hash", Placement::Hash),
        ("hash, bounded loads", Placement::BoundedHash),
        ("warm, else two choices", Placement::Warm { at_most }),
    ];
    let each = |(name, placement)| {
        let config = Config { placement, window_s: 300.0, ..config.clone() };
        let report = run(name, config.clone());
        compared("placement", json!(name), &config, &report)
    };
    all.into_iter().map(each).collect()
}

/// Compares persistence policies.
pub(super) fn persistences(run: &mut Run, config: Config, inputs: &Inputs) -> Value {
    let once = |idle_s, at_most, full_every| Persistence::Coalesced { idle_s, at_most, full_every };
    let all = [
        ("whole sessions, each time", Persistence::Every),
        ("differences", Persistence::Delta { full_every: 16 }),
        ("once idle for 15 s", once(15.0, 64, None)),
        ("once idle for 60 s", once(60.0, 64, None)),
        ("once idle for 60 s or 8 behind", once(60.0, 8, None)),
        ("differences, once idle for 60 s or 8 behind", once(60.0, 8, Some(16))),
    ];
    let each = |(name, persistence)| {
        let config = Config { persistence, window_s: 300.0, ..config.clone() };
        let report = run(name, config.clone());
        let mut value = compared("persistence", json!(name), &config, &report);
        let requests = report.puts as f64 * inputs.price.put + report.gets as f64 * inputs.price.get;
        value["requests_per_session_hour"] =
            json!(super::round(requests / config.window_s * 3_600.0 / f64::from(config.sessions)));
        value
    };
    all.into_iter().map(each).collect()
}

/// Compares object stores.
pub(super) fn stores(run: &mut Run, config: Config, inputs: &Inputs) -> Value {
    let each = |(name, store): (&String, &crate::config::Store)| {
        let config = Config { store: *store, ..config.clone() };
        let report = run(name, config.clone());
        compared("store", json!(name), &config, &report)
    };
    inputs.store.iter().map(each).collect()
}

/// Compares fleets that have different numbers of nodes but the same sessions.
pub(super) fn nodes(run: &mut Run, config: Config) -> Value {
    let each = |percent: u32| {
        let config = Config { nodes: config.nodes * percent / 100, window_s: 300.0, ..config.clone() };
        let report = run(&format!("{} nodes", config.nodes), config.clone());
        compared("percent", json!(percent), &config, &report)
    };
    [100, 70, 50, 40, 35, 30].into_iter().map(each).collect()
}

/// Compares values of `at_most` for a fleet with few nodes. Above this load, a session leaves the node that has it in
/// memory.
pub(super) fn affinities(run: &mut Run, config: Config) -> Value {
    let each = |at_most: u32| {
        let placement = Placement::Warm { at_most };
        let config = Config { placement, nodes: config.nodes * 35 / 100, window_s: 300.0, ..config.clone() };
        let report = run(&format!("{at_most} for each processor"), config.clone());
        compared("at_most", json!(at_most), &config, &report)
    };
    [2, 4, 8, 16, 32].into_iter().map(each).collect()
}
