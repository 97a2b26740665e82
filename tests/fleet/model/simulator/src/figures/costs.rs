//! The hourly cost of a session at the assumed prices.

use serde_json::{Map, Value, json};

use super::round;
use crate::inputs::Inputs;

const HOURS_A_MONTH: f64 = 730.0;

/// Computes the cost for each persistence policy, both with all nodes and with the fewest nodes that can serve the
/// busiest hour after losing a zone.
pub(super) fn costs(figures: &Map<String, Value>, inputs: &Inputs) -> Value {
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
