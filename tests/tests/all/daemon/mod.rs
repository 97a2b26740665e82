//! Black-box tests of the HTTP API on a Unix socket, as `glovebox daemon` serves it.

mod bounds;
mod hostile;
mod running;
mod sessions;
mod socket;
mod storing;
mod support;
