//! The failure of a call.

use crate::{Errno, Fault, Stop};

/// An error for the guest, or a stop that unwinds it.
#[derive(Debug)]
pub(crate) enum Failure {
    Errno(Errno),
    Stop(Stop),
}

impl From<Errno> for Failure {
    fn from(errno: Errno) -> Self {
        Self::Errno(errno)
    }
}

impl From<Stop> for Failure {
    fn from(stop: Stop) -> Self {
        Self::Stop(stop)
    }
}

impl From<Fault> for Failure {
    fn from(_: Fault) -> Self {
        Self::Errno(Errno::Fault)
    }
}

pub(crate) type Call<T = ()> = Result<T, Failure>;
