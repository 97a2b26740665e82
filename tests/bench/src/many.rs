//! Measures executions that alternate randomly between many sessions.

use std::fs;

use anyhow::Context;
use glovebox::{Sandbox, Session};

use crate::samples::{Samples, timed};

/// The time and memory of many sessions.
#[derive(Debug, Default)]
pub(crate) struct ManySessions {
    /// The times of executions, each in a random session.
    pub(crate) samples: Samples,
    pub(crate) count: u64,
    /// Total anonymous memory of all sessions after their executions, in bytes.
    pub(crate) bytes: u64,
}

impl ManySessions {
    /// Opens `count` sessions, executes the script once in each, and then measures `executions` in random sessions.
    pub(crate) fn measure(sandbox: &Sandbox, source: &str, count: u64, executions: u64) -> anyhow::Result<Self> {
        let before = anonymous_bytes();
        let mut sessions = Vec::new();
        for _ in 0..count {
            let session = sandbox.session()?;
            timed(|| session.execute(source))?;
            sessions.push(session);
        }
        let mut samples = Samples::default();
        let mut random = 0x9e37_79b9_7f4a_7c15_u64;
        for _ in 0..executions {
            let session = any(&sessions, &mut random)?;
            samples.push(timed(|| session.execute(source))?);
        }
        let bytes = anonymous_bytes().saturating_sub(before);
        sessions.into_iter().try_for_each(|session| session.close())?;
        Ok(Self { samples, count, bytes })
    }
}

/// Returns a random session, chosen with Marsaglia's xorshift.
fn any<'a>(sessions: &'a [Session], random: &mut u64) -> anyhow::Result<&'a Session> {
    *random ^= *random << 13;
    *random ^= *random >> 7;
    *random ^= *random << 17;
    let count = sessions.len() as u64;
    let place = usize::try_from(*random % count.max(1)).unwrap_or(0);
    sessions.get(place).context("no session is open")
}

/// Returns this process's anonymous memory in bytes, or 0 if the system does not report it.
fn anonymous_bytes() -> u64 {
    let text = fs::read_to_string("/proc/self/smaps_rollup").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("Anonymous:"));
    line.and_then(|rest| rest.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()).unwrap_or(0) * 1024
}
