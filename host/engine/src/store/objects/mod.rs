//! Stores over a network: sessions and bytes as objects in S3, Google Cloud Storage, Azure, a directory or memory.
//!
//! * [`place`]: which store a URL names, with credentials from the environment; [`http`]: the client it is asked with.
//! * [`bucket`]: what is asked of it; [`bounded`]: how, each within limits of size and time, on threads of its own ([`background`]);
//!   [`files`]: how a directory is listed.
//! * [`blobs`]: immutable bytes under names.
//! * [`store`]: sessions; [`log`]: who may write one, and whether that was accepted; [`entry`]: what a log has; [`listing`]: all of them.
//! * [`lease`]: who has a session at the moment; [`holder`]: what that one knows; [`probe`]: whether a store is fit for all this.

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
