//! Points in time, with their text form.

use std::{
    fmt,
    str::FromStr,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use glovebox_vfs::escaped;
use serde::{Deserialize, Serialize};

/// A point in time in UTC from 1970 to 9999, with millisecond precision. Its text form follows RFC 3339:
/// `2026-11-22T01:44:11.250Z`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Timestamp {
    unix_ms: u64,
}

/// The error for text that is not a valid [`Timestamp`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid time `{name}`; write it as `2026-11-22T01:44:11.250Z`", name = escaped(.0))]
pub struct TimestampError(String);

impl Timestamp {
    /// The last millisecond of 9999, the last year in RFC 3339.
    const LAST_MS: u64 = 253_402_300_799_999;

    /// Returns the current time of the host's clock.
    #[must_use]
    pub fn now() -> Self {
        Self::from(SystemTime::now())
    }

    /// Converts milliseconds since 1970-01-01T00:00:00Z. Times after 9999 are clamped to the end of 9999.
    #[must_use]
    pub fn from_unix_ms(unix_ms: u64) -> Self {
        Self { unix_ms: unix_ms.min(Self::LAST_MS) }
    }

    /// Returns the milliseconds since 1970-01-01T00:00:00Z.
    #[must_use]
    pub fn unix_ms(self) -> u64 {
        self.unix_ms
    }

    /// Returns the time from `earlier` to this time, or zero if `earlier` is later.
    #[must_use]
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(self.unix_ms.saturating_sub(earlier.unix_ms))
    }
}

impl From<SystemTime> for Timestamp {
    /// Clamps times before 1970 to 1970-01-01T00:00:00Z.
    fn from(time: SystemTime) -> Self {
        let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
        Self::from_unix_ms(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        humantime::format_rfc3339_millis(UNIX_EPOCH + Duration::from_millis(self.unix_ms)).fmt(f)
    }
}

impl FromStr for Timestamp {
    type Err = TimestampError;

    /// Parses a UTC time, for example the output of [`Display`](fmt::Display). Fractional seconds are optional.
    fn from_str(text: &str) -> Result<Self, TimestampError> {
        let time = humantime::parse_rfc3339(text);
        time.map(Self::from).map_err(|_| TimestampError(text.chars().take(40).collect()))
    }
}

impl TryFrom<String> for Timestamp {
    type Error = TimestampError;

    fn try_from(text: String) -> Result<Self, TimestampError> {
        text.parse()
    }
}

impl From<Timestamp> for String {
    fn from(time: Timestamp) -> Self {
        time.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timestamps_match_known_dates() {
        // Generated with `date -u -d @SECONDS +%FT%TZ`.
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_399, "2000-02-28T23:59:59.000Z"),
            (951_782_400, "2000-02-29T00:00:00.000Z"),
            (951_868_800, "2000-03-01T00:00:00.000Z"),
            (1_577_836_799, "2019-12-31T23:59:59.000Z"),
            (4_107_542_400, "2100-03-01T00:00:00.000Z"),
            (253_402_300_799, "9999-12-31T23:59:59.000Z"),
        ] {
            let time = Timestamp::from_unix_ms(seconds * 1000);
            assert_eq!(time.to_string(), text);
            assert_eq!(text.parse(), Ok(time));
        }
        assert_eq!("2026-11-22T01:44:11Z".parse::<Timestamp>().unwrap().to_string(), "2026-11-22T01:44:11.000Z");
        assert_eq!(Timestamp::from_unix_ms(u64::MAX).to_string(), "9999-12-31T23:59:59.999Z");
        assert_eq!(Timestamp::from(UNIX_EPOCH - Duration::from_secs(1)).unix_ms(), 0);
    }

    #[test]
    fn invalid_timestamps_are_rejected() {
        for text in [
            "",
            "2026-11-22",
            "2026-11-22T01:44:11",
            "2026-11-22T01:44:11+01:00",
            "2026-02-30T00:00:00Z",
            "2026-13-01T00:00:00Z",
            "2026-00-01T00:00:00Z",
            "2026-01-00T00:00:00Z",
            "1969-12-31T23:59:59Z",
            "2026-11-22T24:00:00Z",
            "2026-11-22T23:60:00Z",
            "2026-11-22-1T23:00:00Z",
            "+026-11-22T23:00:00Z",
            "2026-11-22T23:00:00:00Z",
        ] {
            assert!(text.parse::<Timestamp>().is_err(), "{text}");
        }
    }
}
