//! Network stores: sessions and blobs as objects in S3, Google Cloud Storage, Azure, a directory or memory.
//!
//! * [`place`]: parses store URLs and reads credentials from the environment; [`http`]: the HTTP client.
//! * [`bucket`]: the operations on a store; [`bounded`]: these with size and time limits, on threads of their own ([`background`]);
//!   [`files`]: directory listing.
//! * [`blobs`]: immutable named blobs.
//! * [`store`]: sessions; [`log`]: who may write one, and whether it was accepted; [`entry`]: log entries; [`listing`]: listing sessions.
//! * [`lease`]: who holds a session now; [`holder`]: what the holder knows; [`probe`]: checks whether a store is suitable.

mod background;
mod blobs;
mod bounded;
mod bucket;
mod entry;
mod files;
mod holder;
mod http;
mod lease;
mod listing;
mod log;
mod place;
mod probe;
mod store;
#[cfg(test)]
mod tests;

pub use blobs::{BlobInfo, BlobPage, BlobStore};
pub use store::ObjectStore;
