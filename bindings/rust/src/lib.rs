//! `glovebox:sandbox` for components written in Rust.
