//! Black-box tests of the daemon, through sockets of its own.

mod bounds;
mod hostile;
mod place;
mod protocol;
mod running;
mod sessions;
mod support;
