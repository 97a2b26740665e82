//! Black-box tests of the daemon, each over a new socket.

mod bounds;
mod hostile;
mod place;
mod protocol;
mod running;
mod sessions;
mod support;
