//! Conversions between core's types and the contract's.

glovebox_core::contract_conversions!(crate::bindings::types);
