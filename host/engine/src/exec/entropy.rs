//! The host's random numbers.

/// Fills `into` from the operating system.
///
/// This works on every supported system once it has booted. If it ever fails, the process aborts: scripts make keys and
/// tokens from these numbers, and guessable numbers would be worse than none.
pub(crate) fn fill(into: &mut [u8]) {
    if let Err(error) = getrandom::fill(into) {
        tracing::error!(%error, "the operating system could not provide random numbers");
        std::process::abort();
    }
}

/// Returns a unique id for a session: 128 random bits in hexadecimal.
pub(crate) fn random_id() -> String {
    let mut random = [0; 16];
    fill(&mut random);
    format!("{:032x}", u128::from_le_bytes(random))
}
