//! Simulates a Glovebox fleet: sessions on many machines, with costs measured on one machine. [`fleet::Fleet`] runs a
//! [`config::Config`] and returns a [`report::Report`]. [`figures`] computes the results in `docs/fleet-model.md`. All
//! random numbers are seeded, so results are identical on every machine.

pub mod config;
mod failure;
pub mod figures;
pub mod fleet;
pub mod gaps;
pub mod inputs;
pub mod node;
pub mod placement;
pub mod random;
pub mod report;
pub mod trace;
pub mod wheel;
