//! Stores by URL: blobs, and the protocols of sessions and their leases against a store that is asked in every order and that fails.

mod blobs;
mod leases;
mod model;
mod protocol;
