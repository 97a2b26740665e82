//! The tests of `glovebox-weave`.

// Spelled out so that the lints know helpers in these files for test code too.
#[cfg(test)]
mod binaries;
#[cfg(test)]
mod weave;
