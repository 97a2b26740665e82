//! Makes [`Adapter`] the component's export.

#![allow(
    unsafe_code,
    unreachable_pub,
    missing_docs,
    unused_qualifications,
    clippy::all,
    clippy::allow_attributes_without_reason,
    reason = "the last line is a generated macro that exports functions by name and raw signature"
)]

use crate::{bindings::export, entry::Adapter};

export!(Adapter);
