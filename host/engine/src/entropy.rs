//! The host's random numbers.

/// Fills `into` from the operating system.
///
/// This works on every supported system once it has started. If it ever fails, the process ends: scripts make
/// keys and tokens of these numbers, and guessable ones would be worse than none.
pub(crate) fn fill(into: &mut [u8]) {
    if let Err(error) = getrandom::fill(into) {
        tracing::error!(%error, "the operating system gave no random numbers");
        std::process::abort();
    }
}

/// A session's id that nobody else has: 128 random bits in hexadecimal.
pub(crate) fn random_id() -> String {
    let mut random = [0; 16];
    fill(&mut random);
    format!("{:032x}", u128::from_le_bytes(random))
}
