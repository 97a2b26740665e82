//! Numbers on the command line.

/// Parses a count: `5000`, `5_000`.
pub(crate) fn count(text: &str) -> Result<u64, String> {
    let digits: String = text.chars().filter(|&c| c != '_').collect();
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return Err("write a whole number, such as `5000` or `5_000`".into());
    }
    digits.parse().map_err(|_| format!("the maximum is {}", u64::MAX))
}

/// Parses a 32-bit count.
pub(crate) fn count_u32(text: &str) -> Result<u32, String> {
    u32::try_from(count(text)?).map_err(|_| format!("the maximum is {}", u32::MAX))
}

/// Parses bytes: a count, or one with a unit: `64MiB`, `2MB`.
pub(crate) fn bytes(text: &str) -> Result<u64, String> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '_').unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let factor: u64 = match unit.trim_start().to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "kb" => 1_000,
        "mb" => 1_000_000,
        "gb" => 1_000_000_000,
        "k" | "kib" => 1 << 10,
        "m" | "mib" => 1 << 20,
        "g" | "gib" => 1 << 30,
        _ => return Err("write a number of bytes, such as `1000000`, `64MiB` or `2MB`".into()),
    };
    count(number)?.checked_mul(factor).ok_or_else(|| format!("the maximum is {}", u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::{bytes, count, count_u32};

    #[test]
    fn counts_take_underscores_and_nothing_else() {
        assert_eq!(count("5_000"), Ok(5_000));
        assert_eq!(count("18446744073709551615"), Ok(u64::MAX));
        for wrong in ["", "_", "-1", "1.5", "1e9", "0x10", "18446744073709551616", "5 000", "+5"] {
            assert!(count(wrong).is_err(), "{wrong}");
        }
        assert!(count_u32("4294967296").is_err());
    }

    #[test]
    fn units_do_not_overflow() {
        assert_eq!(bytes("64MiB"), Ok(64 << 20));
        assert_eq!(bytes("2MB"), Ok(2_000_000));
        assert_eq!(bytes("1 g"), Ok(1 << 30));
        assert!(bytes("18446744073709551615KiB").is_err());
        assert!(bytes("MiB").is_err());
        assert!(bytes("1TiBs").is_err());
    }
}
