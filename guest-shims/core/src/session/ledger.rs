//! What all kept sessions hold together.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use crate::Limits;

/// How many sessions are kept, and what they hold.
#[derive(Debug, Default)]
pub struct SessionLedger(Arc<Totals>);

/// One more session, or one more checkpoint, is over a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{used} of {most} `{key}` are in use; close a session first or raise the limit")]
pub struct TooMany {
    /// The limit: `limits.session_count` or `limits.session_total_bytes`.
    pub key: &'static str,
    /// What is in use.
    pub used: u64,
    /// The limit.
    pub most: u64,
}

#[derive(Debug, Default)]
struct Totals {
    count: AtomicU64,
    bytes: AtomicU64,
}

/// One session's place in the ledger.
#[derive(Debug)]
pub struct Place {
    totals: Arc<Totals>,
    bytes: u64,
}

impl SessionLedger {
    /// Takes a place for one more session.
    pub fn enter(&self, limits: &Limits) -> Result<Place, TooMany> {
        check_bytes(&self.0, limits)?;
        let most = u64::from(limits.session_count);
        let taken =
            self.0.count.try_update(Ordering::SeqCst, Ordering::SeqCst, |count| (count < most).then_some(count + 1));
        match taken {
            Ok(_) => Ok(Place { totals: Arc::clone(&self.0), bytes: 0 }),
            Err(used) => Err(TooMany { key: "limits.session_count", used, most }),
        }
    }
}

fn check_bytes(totals: &Totals, limits: &Limits) -> Result<(), TooMany> {
    let (used, most) = (totals.bytes.load(Ordering::SeqCst), limits.session_total_bytes);
    if used > most {
        return Err(TooMany { key: "limits.session_total_bytes", used, most });
    }
    Ok(())
}

impl Place {
    /// Writes down what the session holds now.
    pub fn update(&mut self, bytes: u64) {
        self.totals.bytes.fetch_add(bytes, Ordering::SeqCst);
        self.totals.bytes.fetch_sub(self.bytes, Ordering::SeqCst);
        self.bytes = bytes;
    }

    /// Whether one more may be kept of what sessions hold.
    pub fn check(&self, limits: &Limits) -> Result<(), TooMany> {
        check_bytes(&self.totals, limits)
    }

    /// What was last written down.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.update(0);
        self.totals.count.fetch_sub(1, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_are_counted_as_they_come_and_go() {
        let ledger = SessionLedger::default();
        let limits = Limits { session_count: 2, ..Limits::default() };
        let first = ledger.enter(&limits).unwrap();
        let _second = ledger.enter(&limits).expect("at");
        let over = ledger.enter(&limits).unwrap_err();
        assert_eq!(over, TooMany { key: "limits.session_count", used: 2, most: 2 });
        drop(first);
        assert!(ledger.enter(&limits).is_ok(), "usable after");
    }

    #[test]
    fn what_they_hold_together_has_a_most() {
        let ledger = SessionLedger::default();
        let limits = Limits { session_total_bytes: 100, ..Limits::default() };
        let (mut one, mut other) = (ledger.enter(&limits).unwrap(), ledger.enter(&limits).unwrap());
        one.update(60);
        other.update(39);
        assert_eq!(one.check(&limits), Ok(()), "under");
        other.update(40);
        assert_eq!(one.check(&limits), Ok(()), "at");
        other.update(41);
        let over = TooMany { key: "limits.session_total_bytes", used: 101, most: 100 };
        assert_eq!(one.check(&limits), Err(over), "over");
        assert_eq!(ledger.enter(&limits).unwrap_err(), over);
        assert_eq!(other.bytes(), 41);
        drop(other);
        assert!(ledger.enter(&limits).is_ok(), "usable after");
    }
}
