//! Stores of hibernated sessions and of blobs in S3, Google Cloud Storage, Azure, a directory or memory, selected by a
//! URL.
//!
//! * [`ObjectStore`]: a [`SessionStore`](glovebox_sessions::SessionStore), which several machines can share.
//! * [`BlobStore`]: immutable named blobs.
//!
//! The crate is separate from `glovebox-sessions`, because its dependencies take longer to compile than those of a
//! program that stores sessions in a directory.
//!
//! | file | contents |
//! |---|---|
//! | `location` | parses store URLs and reads credentials from the environment |
//! | `bucket` | the operations of a store, with size and time limits, on separate threads |
//! | `blobs` | immutable named blobs |
//! | `store` | stores, lists and counts sessions |
//! | `log`, `entry` | orders writes and decides whether each write is accepted |
//! | `lease` | locks sessions, and checks that a store is suitable |

mod blobs;
mod bucket;
mod entry;
mod lease;
mod location;
mod log;
mod store;
#[cfg(test)]
mod tests;

pub use blobs::{BlobError, BlobInfo, BlobPage, BlobStore};
pub use store::ObjectStore;
