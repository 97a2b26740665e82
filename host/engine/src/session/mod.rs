//! Sessions: interpreters that are kept between executions.
//!
//! * [`handle`]: the public [`Session`], and its turns ([`line`]).
//! * [`live`]: what it is made of, and what becomes of it when its guest is unwound.
//! * [`checkpoint`]: saving a guest, its private [`pages`] compared with the [`pristine`] image, and making one of what was
//!   saved.
//! * [`shared`]: files that several sessions have in common.
//!
//! What is saved, which states a session can be set back to and what all sessions hold together is `glovebox-core`'s.

mod checkpoint;
mod handle;
mod info;
mod line;
mod live;
mod options;
mod pages;
mod pristine;
mod shared;

pub(crate) use checkpoint::Awaken;
pub(crate) use options::check_id;
pub(crate) use pristine::{Pristine, bits};

pub use handle::Session;
pub use options::SessionOptions;
pub use shared::SharedWorkspace;
