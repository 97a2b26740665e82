//! A simulation of a fleet of Glovebox: sessions over many machines, from costs that were measured on one.
//!
//! [`fleet::Fleet`] runs one [`config::Config`] and answers a [`report::Report`]; [`figures`] has the questions that `docs/fleet-model.md`
//! answers. Everything is seeded, and the same on every machine.

pub mod config;
mod failure;
pub mod figures;
pub mod fleet;
pub mod gaps;
pub mod histogram;
pub mod hours;
pub mod inputs;
pub mod node;
pub mod placement;
pub mod random;
pub mod report;
mod saving;
pub mod trace;
pub mod wheel;
