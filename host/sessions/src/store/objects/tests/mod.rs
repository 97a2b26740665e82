//! Stores by URL: blobs, and the session and lease protocols against a store that executes requests in every order and
//! fails.

mod blobs;
mod model;
mod protocol;
