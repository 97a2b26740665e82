//! Stores over a network: sessions and bytes as objects in S3, Google Cloud Storage, Azure, a directory or memory.
//!
//! * [`place`]: which store a URL names, with credentials from the environment; [`http`]: the client it is asked with.
//! * [`objects`]: what is asked of it, each within limits of size and time, on threads of its own ([`background`]).
//! * [`blobs`]: immutable bytes under names.

mod background;
mod blobs;
mod http;
mod objects;
mod place;
#[cfg(test)]
mod tests;

pub use blobs::{BlobInfo, BlobPage, BlobStore};
