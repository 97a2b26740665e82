//! Stores with a URL: sessions and blobs as objects in S3, Google Cloud Storage, Azure, a directory or memory.
//!
//! * [`location`]: parses store URLs and reads credentials from the environment.
//! * [`bucket`]: the operations of a store, with size and time limits, on separate threads.
//! * [`blobs`]: immutable named blobs.
//! * [`store`]: stores and lists sessions.
//! * [`log`]: orders writes and decides which of them are accepted.
//! * [`lease`]: locks sessions, and checks that a store is suitable.

mod blobs;
mod bucket;
mod lease;
mod location;
mod log;
mod store;
#[cfg(test)]
mod tests;

pub use blobs::{BlobInfo, BlobPage, BlobStore};
pub use store::ObjectStore;
