//! Network stores: sessions and blobs as objects in S3, Google Cloud Storage, Azure, a directory or memory.
//!
//! * [`place`]: parses store URLs and reads credentials from the environment; [`http`]: the HTTP client.
//! * [`bucket`]: the operations of a store; [`bounded`]: operations with size and time limits, on separate threads
//!   ([`background`]); [`files`]: directory listing.
//! * [`blobs`]: immutable named blobs.
//! * [`store`]: sessions; [`log`]: the order and acceptance of writes; [`entry`]: log entries; [`listing`]: listing
//!   sessions.
//! * [`lease`]: session locks; [`holder`]: the state of a lock's holder; [`probe`]: checks whether a store is suitable.

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
