//! The tests of `glovebox-weave`.

// `#[cfg(test)]` makes the lints treat helpers in these files as test code.
#[cfg(test)]
mod weave;
