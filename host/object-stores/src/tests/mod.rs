//! Tests stores with a URL: blobs, and the session and lease protocols on a store that executes requests in every order
//! and injects faults.

mod blobs;
mod model;
mod protocol;
