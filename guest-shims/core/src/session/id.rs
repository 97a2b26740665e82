//! Session ids.

/// Maximum length of a session id in bytes.
pub const MAX_SESSION_ID_BYTES: usize = 64;

/// Returns whether a text is a valid session id: 1 to 64 letters, digits, `.`, `_` or `-`, not starting with `.`.
#[must_use]
pub fn is_session_id(id: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    (1..=MAX_SESSION_ID_BYTES).contains(&id.len()) && !id.starts_with('.') && id.bytes().all(is_plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_a_plain_name() {
        for (id, fits) in [
            ("a", true),
            ("A-b_c.9", true),
            (&"x".repeat(64), true),
            (&"x".repeat(65), false),
            ("", false),
            (".", false),
            ("..", false),
            (".a", false),
            ("a/b", false),
            ("a\\b", false),
            ("a b", false),
            ("a\0", false),
            ("é", false),
        ] {
            assert_eq!(is_session_id(id), fits, "{id:?}");
        }
    }
}
