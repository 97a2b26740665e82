//! The configuration of a Monty session, and its effect on the sandbox's limits.

use std::{ops::RangeInclusive, time::Duration};

use anyhow::ensure;
use glovebox::{Checkpoints, Limits, Policy};

use super::frame::{FieldValue, each_field};

/// Limit on a snippet's execution time if the client sets none.
pub(super) const DEFAULT_FEED: Duration = Duration::from_secs(60);
/// The supported versions of the protocol.
const VERSIONS: RangeInclusive<u64> = 5..=6;
/// Limit on an execution, including its waits: a day, because a client can take any time to answer a call.
const MAX_WAIT_MS: u64 = 24 * 3600 * 1000;
/// Lower bound for the memory limit. CPython needs this much in addition to its image.
const MIN_MEMORY_BYTES: u64 = 16 << 20;
/// Recursion limits: the protocol's default, and the highest limit for which CPython's C stack is known to suffice.
const DEFAULT_RECURSION: u64 = 1000;
const MAX_RECURSION: u64 = 10_000;

/// The configuration of a session, and the message from which it was read. Dumps contain the message.
#[derive(Clone, Debug, Default)]
pub(super) struct SessionConfig {
    pub(super) message: Vec<u8>,
    pub(super) script_name: Vec<u8>,
    pub(super) version: u64,
    pub(super) checks_types: bool,
    memory_bytes: Option<u64>,
    recursion: Option<u64>,
    pub(super) max_suspensions: Option<u64>,
    pub(super) feed_micros: Option<u64>,
    pub(super) turn_micros: Option<u64>,
    pub(super) sleep_micros: Option<u64>,
}

impl SessionConfig {
    /// Parses a message. The message is untrusted, because it can come from a forged dump.
    pub(super) fn read(message: &[u8]) -> anyhow::Result<Self> {
        let mut config = Self { message: message.to_vec(), ..Self::default() };
        let mut limits: &[u8] = &[];
        each_field(message, |field, value| match (field, value) {
            (1, FieldValue::Bytes(name)) => config.script_name = name.to_vec(),
            (2, FieldValue::Bytes(message)) => limits = message,
            (3, FieldValue::Number(checks)) => config.checks_types = checks != 0,
            (9, FieldValue::Number(version)) => config.version = version,
            _ => {}
        })?;
        each_field(limits, |field, value| {
            let FieldValue::Number(limit) = value else { return };
            match field {
                2 => config.memory_bytes = Some(limit),
                4 => config.recursion = Some(limit),
                5 => config.max_suspensions = Some(limit),
                6 => config.feed_micros = Some(limit),
                7 => config.turn_micros = Some(limit),
                8 => config.sleep_micros = Some(limit),
                _ => {}
            }
        })?;
        let (min, max) = VERSIONS.into_inner();
        ensure!(
            (min..=max).contains(&config.version),
            "unsupported protocol version {}; this worker supports versions {min} to {max}",
            config.version
        );
        Ok(config)
    }

    /// Lowers the limits of a dump, which may be forged, to those of the client that loads it. Also replaces the version
    /// of the protocol with that of the client.
    pub(super) fn within(mut self, client: &Self) -> Self {
        let smaller = |dumped: Option<u64>, limit: Option<u64>, default: u64| match dumped {
            Some(dumped) => Some(dumped.min(limit.unwrap_or(default))),
            None => limit,
        };
        let memory_bytes = Policy::default().limits.memory_bytes;
        self.memory_bytes = smaller(self.memory_bytes, client.memory_bytes, memory_bytes);
        let feed_micros = u64::try_from(DEFAULT_FEED.as_micros()).unwrap_or(u64::MAX);
        self.feed_micros = smaller(self.feed_micros, client.feed_micros, feed_micros);
        self.turn_micros = smaller(self.turn_micros, client.turn_micros, u64::MAX);
        self.sleep_micros = smaller(self.sleep_micros, client.sleep_micros, u64::MAX);
        self.max_suspensions = smaller(self.max_suspensions, client.max_suspensions, u64::MAX);
        self.version = client.version;
        self
    }

    /// Returns the policy of the session's snippets.
    pub(super) fn policy(&self) -> Policy {
        let mut policy = Policy::default();
        // A snippet that must be stopped by force loses only its own changes.
        policy.session.checkpoints = Checkpoints::Always;
        let limits = &mut policy.limits;
        (limits.timeout_ms, limits.tool_timeout_ms) = (MAX_WAIT_MS, MAX_WAIT_MS);
        // Fuel needs no limit, because the execution time is limited.
        limits.fuel = i64::MAX.unsigned_abs();
        (limits.tool_calls, limits.tool_bytes) = (1_000_000, 32 << 20);
        (limits.stdout_bytes, limits.stderr_bytes) = (16 << 20, 16 << 20);
        if let Some(bytes) = self.memory_bytes {
            limits.memory_bytes = bytes.clamp(MIN_MEMORY_BYTES, Limits::MAX_MEMORY_BYTES);
        }
        policy
    }

    /// Returns the recursion limit of the interpreter.
    pub(super) fn recursion(&self) -> u64 {
        self.recursion.unwrap_or(DEFAULT_RECURSION).min(MAX_RECURSION)
    }

    /// Returns the limits on a snippet's total execution time, and on its execution time until the next event.
    pub(super) fn times(&self) -> (Duration, Duration) {
        let feed = self.feed_micros.map_or(DEFAULT_FEED, Duration::from_micros);
        (feed, self.turn_micros.map_or(Duration::MAX, Duration::from_micros))
    }
}

#[cfg(test)]
mod tests {
    use super::{super::frame::Message, *};

    #[test]
    fn versions_and_limits_are_checked() {
        let of = |version, memory| {
            let limits = Message::default().number(2, memory).number(4, u64::MAX).number(6, 1_000).finish();
            SessionConfig::read(&Message::default().bytes(2, &limits).number(9, version).finish())
        };
        for version in [0, 4, 7] {
            assert!(of(version, 1).unwrap_err().to_string().contains("versions 5 to 6"), "{version}");
        }
        for (memory, bytes) in [(0, MIN_MEMORY_BYTES), (64 << 20, 64 << 20), (u64::MAX, Limits::MAX_MEMORY_BYTES)] {
            let config = of(6, memory).unwrap();
            let policy = config.policy();
            assert_eq!((policy.limits.memory_bytes, policy.limits.check()), (bytes, Ok(())));
            assert_eq!(
                (config.recursion(), config.times()),
                (MAX_RECURSION, (Duration::from_millis(1), Duration::MAX))
            );
        }
        assert!(SessionConfig::read(&[18, 5, 1]).is_err());
    }

    #[test]
    fn limits_of_dumps_are_lowered_to_those_of_the_client() {
        let of = |limit: Option<u64>| {
            let limits = [2, 5, 6, 7, 8].into_iter().fold(Message::default(), |all, at| all.optional(at, limit));
            SessionConfig::read(&Message::default().bytes(2, &limits.finish()).number(9, 6).finish()).unwrap()
        };
        let (memory, feed) = (Policy::default().limits.memory_bytes, 60_000_000);
        for (dumped, client, [memory_bytes, feed_micros, others]) in [
            (Some(u64::MAX), Some(7), [Some(7); 3]),
            (Some(7), Some(u64::MAX), [Some(7); 3]),
            (None, Some(7), [Some(7); 3]),
            (Some(7), None, [Some(7); 3]),
            (Some(u64::MAX), None, [Some(memory), Some(feed), Some(u64::MAX)]),
            (None, None, [None; 3]),
        ] {
            let config = of(dumped).within(&of(client));
            assert_eq!((config.memory_bytes, config.feed_micros), (memory_bytes, feed_micros), "{dumped:?} {client:?}");
            let found = [config.turn_micros, config.sleep_micros, config.max_suspensions];
            assert_eq!(found, [others; 3], "{dumped:?} {client:?}");
        }
    }

    #[test]
    fn dumps_are_loaded_with_the_version_of_the_client() {
        let of = |version| SessionConfig::read(&Message::default().number(9, version).finish()).unwrap();
        assert_eq!(of(6).within(&of(5)).version, 5);
    }
}
