//! Many sessions at once, of which now one and now another executes.

use std::fs;

use anyhow::Context;
use glovebox::{Sandbox, Session};

use crate::samples::{Samples, timed};

/// What many sessions took.
#[derive(Debug, Default)]
pub(crate) struct ManySessions {
    /// Executions, each in a session that nobody could foresee.
    pub(crate) samples: Samples,
    /// How many sessions there were.
    pub(crate) count: u64,
    /// What they held together of memory that is this process's own, after their executions.
    pub(crate) bytes: u64,
}

impl ManySessions {
    /// Opens so many, lets each execute once, and then so many times one or another.
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

/// One of them, by Marsaglia's xorshift.
fn any<'a>(sessions: &'a [Session], random: &mut u64) -> anyhow::Result<&'a Session> {
    *random ^= *random << 13;
    *random ^= *random >> 7;
    *random ^= *random << 17;
    let count = sessions.len() as u64;
    let place = usize::try_from(*random % count.max(1)).unwrap_or(0);
    sessions.get(place).context("there is no session")
}

/// Memory that is this process's alone and no file's; 0 where the system does not tell.
fn anonymous_bytes() -> u64 {
    let text = fs::read_to_string("/proc/self/smaps_rollup").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("Anonymous:"));
    line.and_then(|rest| rest.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()).unwrap_or(0) * 1024
}
