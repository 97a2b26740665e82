//! The host's random numbers.

/// Fills `into` from the operating system.
///
/// The operating system's generator does not fail on the systems we run on once it has started; if it ever did, weak
/// numbers would be worse than none, so the zeros are left for the guest to see.
pub(crate) fn fill(into: &mut [u8]) {
    if let Err(error) = getrandom::fill(into) {
        tracing::error!(%error, "the operating system gave no random numbers");
        into.fill(0);
    }
}
