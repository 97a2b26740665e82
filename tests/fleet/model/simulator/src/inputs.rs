//! `inputs.toml`: what was measured, and what is assumed.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::config::{Class, Config, Intensity, Kind, Persistence, Placement, Store};

/// The file. Its keys that say where a number is from are not read.
#[derive(Clone, Debug, Deserialize)]
pub struct Inputs {
    /// What a call through the engine takes on three nodes.
    pub call: Call,
    /// Measured, by runtime and size.
    pub session: Vec<Measured>,
    /// Assumed: how many sessions are of which runtime.
    pub runtimes: Runtimes,
    /// Assumed: how many have so much memory of their own.
    pub sizes: Vec<Size>,
    /// Assumed: who uses them.
    pub kind: Vec<Kind>,
    /// Assumed: how much more is done at noon than in the mean of a day.
    pub day: Day,
    /// The object stores, by name.
    pub store: BTreeMap<String, Store>,
    /// A node.
    pub node: NodeSize,
    /// Its parts, and the store's requests.
    pub price: Price,
    /// How the fleet is run.
    pub fleet: FleetInputs,
    /// Measured: the trace against a server.
    pub served: Served,
}

/// What the engine adds to a call.
#[derive(Clone, Debug, Deserialize)]
pub struct Call {
    /// Milliseconds.
    pub fleet_ms: f64,
}

/// Sessions of one runtime and size.
#[derive(Clone, Debug, Deserialize)]
#[allow(missing_docs, reason = "the measuring program says what each is")]
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

/// How common each is.
#[derive(Clone, Debug, Deserialize)]
#[allow(missing_docs, reason = "the table in the file says it")]
pub struct Runtimes {
    pub share: BTreeMap<String, f64>,
}

/// A size and how common it is.
#[derive(Clone, Debug, Deserialize)]
#[allow(missing_docs, reason = "the table in the file says it")]
pub struct Size {
    pub own_mib: u32,
    pub share: f64,
}

/// The day.
#[derive(Clone, Debug, Deserialize)]
#[allow(missing_docs, reason = "the table in the file says it")]
pub struct Day {
    pub amplitude: f64,
}

/// A node.
#[derive(Clone, Debug, Deserialize)]
#[allow(missing_docs, reason = "the table in the file says it")]
pub struct NodeSize {
    pub cores: u32,
    pub memory_bytes: f64,
    pub reserved_bytes: f64,
    pub link_bytes_per_s: f64,
}

/// Dollars.
#[derive(Clone, Debug, Deserialize)]
#[allow(missing_docs, reason = "the table in the file says it")]
pub struct Price {
    pub core_hour: f64,
    pub gb_hour: f64,
    pub put: f64,
    pub get: f64,
    pub stored_gb_month: f64,
}

/// How many, and how they are run.
#[derive(Clone, Debug, Deserialize)]
#[allow(missing_docs, reason = "the table in the file says it")]
pub struct FleetInputs {
    pub sessions: u32,
    pub nodes: u32,
    pub ttl_s: f64,
    pub warm_at_most: u32,
    pub noticed_s: f64,
    pub zones: u32,
    pub store: String,
}

/// What the trace came to.
#[derive(Clone, Debug, Deserialize)]
#[allow(missing_docs, reason = "the measuring program says what each is")]
pub struct Served {
    pub executions: u64,
    pub predicted_misses: u64,
    pub observed_misses: u64,
    pub as_predicted: u64,
}

impl Inputs {
    /// Of a file's text.
    pub fn parse(text: &str) -> Result<Self, toml::de::Error> {
        toml::from_str(text)
    }

    /// Each runtime and size with its share.
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

    /// The fleet as it is asked about, at the busiest hour of the day.
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
            // Who writes all of it anew saves all of it.
            delta_bytes: self.written_packed_bytes.min(self.blob_bytes),
            warm_bytes: self.warm_bytes,
        }
    }
}
