//! Random names.

/// Returns 128 random bits in hexadecimal, such as the id of a session that no other session has.
///
/// If the operating system has no random numbers, the process ends: names are tickets for what they name.
pub(crate) fn random_id() -> String {
    let mut random = [0; 16];
    if let Err(error) = getrandom::fill(&mut random) {
        tracing::error!(target: "glovebox", %error, "the operating system has no random numbers");
        std::process::abort();
    }
    format!("{:032x}", u128::from_le_bytes(random))
}
