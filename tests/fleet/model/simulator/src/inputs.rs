//! The measurements and assumptions in `inputs.toml`.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::config::{Class, Config, Intensity, Persistence, Placement, Store, UserKind};

/// The contents of the file. The `from` keys, which name the source of a number, are ignored.
#[derive(Clone, Debug, Deserialize)]
pub struct Inputs {
    /// Measured: the latency of a call through the durable-execution engine.
    pub call: Call,
    /// Measured: costs of a session, by runtime and size.
    pub session: Vec<Measured>,
    /// Assumed: shares of the runtimes.
    pub runtimes: Runtimes,
    /// Assumed: data sizes, with their shares of the sessions.
    pub sizes: Vec<Size>,
    /// Assumed: kinds of users.
    pub kind: Vec<UserKind>,
    /// Assumed: activity by time of day.
    pub day: Day,
    /// The object stores, by name.
    pub store: BTreeMap<String, Store>,
    /// Measured and assumed: the size of a node.
    pub node: NodeSize,
    /// Assumed: prices of a node's processors and memory and of the store's requests.
    pub price: Price,
    /// Assumed: size and settings of the fleet.
    pub fleet: FleetInputs,
    /// Measured: result of replaying the trace on a server.
    pub served: Served,
}

/// The latency that the durable-execution engine adds to a call.
#[derive(Clone, Debug, Deserialize)]
pub struct Call {
    /// The latency in milliseconds.
    pub fleet_ms: f64,
}

/// Measurements of a session with one runtime and size.
#[derive(Clone, Debug, Deserialize)]
#[allow(missing_docs, reason = "documented by the measuring program")]
pub struct Measured {
    pub runtime: String,
    pub own_mib: u32,
    pub execute_ms: f64,
    pub hibernate_ms: f64,
    pub resume_ms: f64,
    pub first_execute_ms: f64,
    pub blob_bytes: f64,
    pub warm_bytes: f64,
    pub written_packed_bytes: f64,
}

/// Shares of the runtimes, by name.
#[derive(Clone, Debug, Deserialize)]
#[allow(missing_docs, reason = "documented in inputs.toml")]
pub struct Runtimes {
    pub share: BTreeMap<String, f64>,
}

/// A data size and its share of the sessions.
#[derive(Clone, Debug, Deserialize)]
#[allow(missing_docs, reason = "documented in inputs.toml")]
pub struct Size {
    pub own_mib: u32,
    pub share: f64,
}

/// The activity by time of day.
#[derive(Clone, Debug, Deserialize)]
#[allow(missing_docs, reason = "documented in inputs.toml")]
pub struct Day {
    pub amplitude: f64,
}

/// The size of a node.
#[derive(Clone, Debug, Deserialize)]
#[allow(missing_docs, reason = "documented in inputs.toml")]
pub struct NodeSize {
    pub cores: u32,
    pub memory_bytes: f64,
    pub reserved_bytes: f64,
    pub link_bytes_per_s: f64,
}

/// Prices in dollars.
#[derive(Clone, Debug, Deserialize)]
#[allow(missing_docs, reason = "documented in inputs.toml")]
pub struct Price {
    pub core_hour: f64,
    pub gb_hour: f64,
    pub put: f64,
    pub get: f64,
    pub stored_gb_month: f64,
}

/// The size and settings of the fleet.
#[derive(Clone, Debug, Deserialize)]
#[allow(missing_docs, reason = "documented in inputs.toml")]
pub struct FleetInputs {
    pub sessions: u32,
    pub nodes: u32,
    pub ttl_s: f64,
    pub warm_at_most: u32,
    pub noticed_s: f64,
    pub zones: u32,
    pub store: String,
}

/// The result of replaying the trace on a server.
#[derive(Clone, Debug, Deserialize)]
#[allow(missing_docs, reason = "documented by the measuring program")]
pub struct Served {
    pub executions: u64,
    pub predicted_misses: u64,
    pub observed_misses: u64,
    pub as_predicted: u64,
}

impl Inputs {
    /// Parses the contents of `inputs.toml`.
    pub fn parse(text: &str) -> Result<Self, toml::de::Error> {
        toml::from_str(text)
    }

    /// Returns a class for each combination of measured runtime and size.
    pub fn classes(&self) -> Vec<Class> {
        let mut classes = Vec::new();
        for (runtime, of_runtime) in &self.runtimes.share {
            for size in &self.sizes {
                let found = self.session.iter().find(|each| each.runtime == *runtime && each.own_mib == size.own_mib);
                classes.extend(found.map(|measured| measured.class(of_runtime * size.share)));
            }
        }
        classes
    }

    /// Returns the base configuration: the fleet at its busiest hour.
    pub fn config(&self) -> Config {
        Config {
            seed: 1,
            sessions: self.fleet.sessions,
            nodes: self.fleet.nodes,
            cores: self.node.cores,
            memory_bytes: self.node.memory_bytes - self.node.reserved_bytes,
            link_bytes_per_s: self.node.link_bytes_per_s,
            ttl_s: self.fleet.ttl_s,
            call_s: self.call.fleet_ms / 1e3,
            kinds: self.kind.clone(),
            classes: self.classes(),
            store: self.store[&self.fleet.store],
            placement: Placement::Warm { at_most: self.fleet.warm_at_most },
            persistence: Persistence::Every,
            intensity: Intensity::Constant(1.0 + self.day.amplitude),
            settle_s: 120.0,
            window_s: 600.0,
            step_s: 5.0,
            failure: None,
            shed_s: None,
        }
    }
}

impl Measured {
    fn class(&self, share: f64) -> Class {
        Class {
            share,
            execute_s: self.execute_ms / 1e3,
            hibernate_s: self.hibernate_ms / 1e3,
            resume_s: (self.resume_ms + (self.first_execute_ms - self.execute_ms).max(0.0)) / 1e3,
            blob_bytes: self.blob_bytes,
            // The whole state is stored if the difference would be larger.
            delta_bytes: self.written_packed_bytes.min(self.blob_bytes),
            warm_bytes: self.warm_bytes,
        }
    }
}
