//! The results in `figures.json`, with modules for the larger questions.

mod failures;
mod policies;
mod sensitivity;
mod warmth;

pub use warmth::characteristic_s;

use serde_json::{Map, Value, json};

use crate::{
    config::{Config, Intensity},
    fleet::Fleet,
    inputs::Inputs,
    report::{Report, Step},
};

const HOUR_S: f64 = 3_600.0;

const HOURS_A_MONTH: f64 = 730.0;

/// The size of the simulations.
#[derive(Clone, Copy)]
pub struct Scale {
    /// The divisor of the numbers of sessions and nodes in `inputs.toml`.
    pub one_of: u32,
    /// The additional divisor for sweeps over many fleets and for the simulated day.
    pub sweeps_one_of: u32,
}

impl Scale {
    /// The scale of the published results.
    pub const FULL: Self = Self { one_of: 1, sweeps_one_of: 10 };
    /// The scale for checks: the same results for a fiftieth of the fleet.
    pub const QUICK: Self = Self { one_of: 50, sweeps_one_of: 2 };

    fn whole(self, inputs: &Inputs) -> Config {
        let config = inputs.config();
        Config { sessions: config.sessions / self.one_of, nodes: config.nodes / self.one_of, ..config }
    }

    fn sweep(self, inputs: &Inputs) -> Config {
        let whole = self.whole(inputs);
        Config { sessions: whole.sessions / self.sweeps_one_of, nodes: whole.nodes / self.sweeps_one_of, ..whole }
    }
}

/// Computes all results. Calls `say` with the name of each simulation before it starts.
pub fn figures(inputs: &Inputs, scale: Scale, say: &mut dyn FnMut(&str)) -> Value {
    let mut figures = Map::new();
    let mut events = 0;
    let mut run = |name: &str, config: Config| {
        say(name);
        let report = Fleet::new(config).run();
        events += report.events;
        report
    };
    figures.insert("base".into(), policies::base(&mut run, scale.whole(inputs)));
    figures.insert("warm_time".into(), warmth::times(&mut run, scale.sweep(inputs)));
    figures.insert("tails".into(), warmth::tails(inputs));
    figures.insert("memory".into(), warmth::budgets(&mut run, scale.sweep(inputs)));
    figures.insert("held".into(), warmth::held(inputs));
    figures.insert("placement".into(), policies::placements(&mut run, scale.whole(inputs)));
    figures.insert("persistence".into(), policies::persistences(&mut run, scale.whole(inputs), inputs));
    figures.insert("stores".into(), policies::stores(&mut run, scale.sweep(inputs), inputs));
    figures.insert("nodes".into(), policies::nodes(&mut run, scale.whole(inputs)));
    figures.insert("affinity".into(), policies::affinities(&mut run, scale.whole(inputs)));
    figures.insert("failure".into(), failures::failures(&mut run, scale.whole(inputs), inputs));
    figures.insert("day".into(), day(&mut run, scale.sweep(inputs)));
    figures.insert("cost".into(), costs(&figures, inputs));
    figures.insert("sensitivity".into(), sensitivity::assumptions(&mut run, scale.sweep(inputs)));
    figures.insert("served".into(), served(inputs));
    figures.insert("events".into(), json!(events));
    Value::Object(figures)
}

type Run<'a> = dyn FnMut(&str, Config) -> Report + 'a;

fn served(inputs: &Inputs) -> Value {
    let served = &inputs.served;
    json!({
        "executions": served.executions,
        "predicted_misses": served.predicted_misses,
        "observed_misses": served.observed_misses,
        "as_predicted": served.as_predicted,
    })
}

/// Rounds to five significant digits, enough for plots and comparisons.
fn round(value: f64) -> f64 {
    format!("{value:.4e}").parse().unwrap_or(value)
}

/// Returns the results that are reported for every simulation.
fn summary(config: &Config, report: &Report) -> Map<String, Value> {
    let per_s = |count: u64| round(count as f64 / config.window_s);
    let mean_busy = report.busy_s.iter().sum::<f64>() / config.window_s / f64::from(config.nodes * config.cores);
    let ms = |seconds: f64| round(seconds * 1e3);
    let entries = json!({
        "sessions": config.sessions,
        "nodes": config.nodes,
        "executions_per_s": per_s(report.executions),
        "miss_share": round(report.miss_share()),
        "moved_share": round(report.moved as f64 / report.executions as f64),
        "p50_ms": ms(report.latency.quantile(0.5)),
        "p99_ms": ms(report.latency.quantile(0.99)),
        "warm_p50_ms": ms(report.warm_latency.quantile(0.5)),
        "warm_p99_ms": ms(report.warm_latency.quantile(0.99)),
        "cold_p50_ms": ms(report.cold_latency.quantile(0.5)),
        "cold_p99_ms": ms(report.cold_latency.quantile(0.99)),
        "warm_sessions": round(report.warm_session_s / config.window_s),
        "warm_bytes": round(report.warm_byte_s / config.window_s),
        "processors_busy": round(mean_busy),
        "imbalance": round(report.imbalance()),
        "puts_per_s": per_s(report.puts),
        "put_bytes_per_s": round(report.put_bytes / config.window_s),
        "gets_per_s": per_s(report.gets),
        "get_bytes_per_s": round(report.get_bytes / config.window_s),
        "evicted_per_s": per_s(report.evicted),
    });
    match entries {
        Value::Object(map) => map,
        _ => Map::new(),
    }
}

/// Like `summary`, preceded by the parameter that differs between the compared fleets.
fn compared(name: &str, value: Value, config: &Config, report: &Report) -> Value {
    let mut map = Map::new();
    map.insert(name.into(), value);
    map.extend(summary(config, report));
    Value::Object(map)
}

/// Simulates a day and returns results by hour, starting at midnight.
fn day(run: &mut Run, config: Config) -> Value {
    let Intensity::Constant(busiest) = config.intensity else { return Value::Null };
    let intensity = Intensity::Daily(busiest - 1.0);
    // The warm-up fills the memory, and ends pauses that started on the previous evening.
    let config = Config { intensity, settle_s: 6.0 * HOUR_S, window_s: 24.0 * HOUR_S, step_s: HOUR_S, ..config };
    let report = run("a day", config.clone());
    let hour = |(number, step): (usize, &Step)| {
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

/// Computes the hourly cost of a session at the assumed prices, for each persistence policy, both with all nodes and
/// with the fewest nodes that can serve the busiest hour after losing a zone.
fn costs(figures: &Map<String, Value>, inputs: &Inputs) -> Value {
    let price = &inputs.price;
    let node_hour = price.core_hour * f64::from(inputs.node.cores) + price.gb_hour * inputs.node.memory_bytes / 1e9;
    let stored_gb = figures["held"]["mean_blob_bytes"].as_f64().unwrap_or(0.0) / 1e9;
    let stored = stored_gb * price.stored_gb_month / HOURS_A_MONTH;
    let number = |value: &Value, key: &str| value[key].as_f64().unwrap_or(0.0);
    let mut all = Vec::new();
    for way in figures["persistence"].as_array().into_iter().flatten() {
        let sessions = number(way, "sessions");
        // The rates are for the busiest hour. This factor converts them to the day's mean.
        let mean = 1.0 / (1.0 + inputs.day.amplitude);
        let puts = number(way, "puts_per_s") * 3_600.0 * price.put / sessions * mean;
        let gets = number(way, "gets_per_s") * 3_600.0 * price.get / sessions * mean;
        let nodes = number(way, "nodes");
        // The remaining zones must be busy at most 70% of the time.
        let zones = f64::from(inputs.fleet.zones);
        let by_processor = nodes * number(way, "processors_busy") / 0.7 * zones / (zones - 1.0);
        let by_memory =
            number(way, "warm_bytes") / (inputs.node.memory_bytes - inputs.node.reserved_bytes) * zones / (zones - 1.0);
        let needed = by_processor.max(by_memory).ceil();
        for (name, count) in [("all", nodes), ("needed", needed)] {
            let machines = count * node_hour / sessions;
            all.push(json!({
                "persistence": way["persistence"],
                "which": name,
                "nodes": count,
                "nodes_by_processor": round(by_processor),
                "nodes_by_memory": round(by_memory),
                "machines": round(machines),
                "puts": round(puts),
                "gets": round(gets),
                "stored": round(stored),
                "sum": round(machines + puts + gets + stored),
            }));
        }
    }
    json!({ "node_hour": round(node_hour), "per_session_hour": all })
}
