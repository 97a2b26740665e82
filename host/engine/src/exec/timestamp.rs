//! Points in time in records.

use glovebox_vfs::escaped;
use std::{
    fmt,
    str::FromStr,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use serde::{Deserialize, Serialize};

const MS_PER_DAY: u64 = 24 * 60 * 60 * 1000;

/// A point in time in UTC, in milliseconds, from 1970 to 9999. As text: RFC 3339, `2026-11-22T01:44:11.250Z`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Timestamp {
    unix_ms: u64,
}

/// The text is not a point in time.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid time `{name}`; write it as `2026-11-22T01:44:11.250Z`", name = escaped(.0))]
pub struct TimestampError(String);

impl Timestamp {
    /// The last millisecond of 9999, the last year that RFC 3339 can express.
    const LAST_MS: u64 = 253_402_300_799_999;

    /// Returns the current time of the host's clock.
    #[must_use]
    pub fn now() -> Self {
        Self::from(SystemTime::now())
    }

    /// Converts milliseconds since 1970-01-01T00:00:00Z. Times after 9999 are clamped to its end.
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
    /// Clamps times before 1970 to its start.
    fn from(time: SystemTime) -> Self {
        let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
        Self::from_unix_ms(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (year, month, day) = civil(self.unix_ms / MS_PER_DAY);
        let ms = self.unix_ms % MS_PER_DAY;
        let (hour, minute, second, ms) = (ms / 3_600_000, ms / 60_000 % 60, ms / 1000 % 60, ms % 1000);
        write!(f, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{ms:03}Z")
    }
}

impl FromStr for Timestamp {
    type Err = TimestampError;

    /// Parses the output of [`Display`](fmt::Display). The fraction is optional.
    fn from_str(text: &str) -> Result<Self, TimestampError> {
        parse(text).ok_or_else(|| TimestampError(text.chars().take(40).collect()))
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

fn parse(text: &str) -> Option<Timestamp> {
    let (date, time) = text.strip_suffix('Z')?.split_once('T')?;
    let (time, ms) = match time.split_once('.') {
        Some((time, ms)) => (time, digits(ms, 3)?),
        None => (time, 0),
    };
    let mut date = date.split('-');
    let (year, month, day) = (digits(date.next()?, 4)?, digits(date.next()?, 2)?, digits(date.next()?, 2)?);
    let mut time = time.split(':');
    let (hour, minute, second) = (digits(time.next()?, 2)?, digits(time.next()?, 2)?, digits(time.next()?, 2)?);
    if date.next().is_some() || time.next().is_some() || year < 1970 || hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    let days = days(year, month, day);
    // February 30 would be a day in March.
    (civil(days) == (year, month, day))
        .then(|| Timestamp::from_unix_ms(days * MS_PER_DAY + hour * 3_600_000 + minute * 60_000 + second * 1000 + ms))
}

fn digits(text: &str, count: usize) -> Option<u64> {
    (text.len() == count && text.bytes().all(|byte| byte.is_ascii_digit())).then(|| text.parse().ok())?
}

/// Days from 0000-03-01 to 1970-01-01. Years start in March, so that the leap day is the last day.
const DAYS_TO_1970: u64 = 719_468;
/// Days in 400 years.
const ERA_DAYS: u64 = 146_097;

/// Converts days since 1970 to year, month and day (Howard Hinnant, "chrono-compatible low-level date algorithms").
fn civil(days: u64) -> (u64, u64, u64) {
    let days = days + DAYS_TO_1970;
    let (era, day_of_era) = (days / ERA_DAYS, days % ERA_DAYS);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    (era * 400 + year_of_era + u64::from(month <= 2), month, day)
}

/// Converts a date from 1970 on to days since 1970. An invalid date gives the days of another date.
fn days(year: u64, month: u64, day: u64) -> u64 {
    let year = year - u64::from(month <= 2);
    let from_march = (month + 9) % 12;
    let day_of_year = (153 * from_march + 2) / 5 + day.saturating_sub(1);
    let (era, year_of_era) = (year / 400, year % 400);
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    (era * ERA_DAYS + day_of_era).saturating_sub(DAYS_TO_1970)
}

/// Returns the host's time in nanoseconds since 1970.
pub(crate) fn realtime_ns() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_times() {
        // The expected texts come from `date -u -d @SECONDS +%FT%TZ`.
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
    fn every_day_is_read_as_it_is_written() {
        for day in 0..=Timestamp::LAST_MS / MS_PER_DAY {
            let time = Timestamp::from_unix_ms(day * MS_PER_DAY + day % MS_PER_DAY);
            assert_eq!(time.to_string().parse(), Ok(time));
        }
    }

    #[test]
    fn what_is_no_time_is_refused() {
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
            "2026-11-22T23:00:60Z",
            "2026-11-22T23:00:00.1Z",
            "2026-11-22-1T23:00:00Z",
            "+026-11-22T23:00:00Z",
            "2026-11-22T23:00:00:00Z",
        ] {
            assert!(text.parse::<Timestamp>().is_err(), "{text}");
        }
    }
}
