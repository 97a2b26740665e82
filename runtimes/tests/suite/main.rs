//! The tests of `glovebox-runtimes`, one file per subject.

// `#[cfg(test)]` makes the lints treat helpers in these files as test code.
#[cfg(test)]
mod callbacks;
#[cfg(test)]
mod eviction;
#[cfg(test)]
mod fetch;
#[cfg(test)]
mod inlining;
#[cfg(test)]
mod manifest;
#[cfg(test)]
mod parts;
#[cfg(test)]
mod prepared;
#[cfg(test)]
mod prepared_bundle;
#[cfg(test)]
mod rewrite;
#[cfg(test)]
mod smoke;
#[cfg(test)]
mod support;
#[cfg(test)]
mod threads;
#[cfg(test)]
mod tools;
