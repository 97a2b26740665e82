//! The total usage of all open sessions, and its limit.
//!
//! A session's [`LedgerEntry`] records the usage measured when its guest was last idle. While the guest runs, a
//! [`Reservation`] covers its growth, so the limit holds at all times. The next measurement adds that growth to the
//! entry.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use crate::Limits;

/// The number and the total usage of all sessions. Clones share one ledger.
#[derive(Clone, Debug, Default)]
pub struct SessionLedger(Arc<Totals>);

/// The error for a new session or checkpoint that would exceed a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{key}` would be exceeded: all sessions together need {used}; the maximum is {max}; close a session, try again later, or raise the limit"
)]
pub struct TooMany {
    /// The exceeded limit: `limits.session_count` or `limits.session_total_bytes`.
    pub key: &'static str,
    /// The amount that would be in use.
    pub used: u64,
    /// The value of the limit.
    pub max: u64,
}

#[derive(Debug, Default)]
struct Totals {
    count: AtomicU64,
    bytes: AtomicU64,
}

/// A session's entry in the ledger.
#[derive(Debug)]
pub struct LedgerEntry {
    totals: Arc<Totals>,
    bytes: u64,
}

/// The total usage of all sessions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SessionUsage {
    /// The number of sessions, bounded by `limits.session_count`.
    pub count: u64,
    /// The sessions' total size in bytes, bounded by `limits.session_total_bytes`.
    pub bytes: u64,
}

impl SessionLedger {
    /// Returns the current usage of all sessions.
    pub fn usage(&self) -> SessionUsage {
        SessionUsage { count: self.0.count.load(Ordering::SeqCst), bytes: self.0.bytes.load(Ordering::SeqCst) }
    }

    /// Adds a session that already uses `bytes`.
    ///
    /// # Errors
    /// Fails if the session would exceed a limit.
    pub fn enter(&self, limits: &Limits, bytes: u64) -> Result<LedgerEntry, TooMany> {
        let max = u64::from(limits.session_count);
        let taken =
            self.0.count.try_update(Ordering::SeqCst, Ordering::SeqCst, |count| (count < max).then_some(count + 1));
        if let Err(used) = taken {
            return Err(TooMany { key: "limits.session_count", used: used.saturating_add(1), max });
        }
        let mut place = LedgerEntry { totals: Arc::clone(&self.0), bytes: 0 };
        place.totals.reserve(bytes, limits.session_total_bytes).map_err(|used| over_bytes(used, limits))?;
        place.bytes = bytes;
        Ok(place)
    }
}

impl Totals {
    /// Adds `bytes`. If the sum would exceed `max`, adds nothing and fails with the sum.
    fn reserve(&self, bytes: u64, max: u64) -> Result<(), u64> {
        let fits = |used: u64| Some(used.saturating_add(bytes)).filter(|sum| *sum <= max);
        let added = self.bytes.try_update(Ordering::SeqCst, Ordering::SeqCst, fits);
        added.map(|_| ()).map_err(|used| used.saturating_add(bytes))
    }
}

fn over_bytes(used: u64, limits: &Limits) -> TooMany {
    TooMany { key: "limits.session_total_bytes", used, max: limits.session_total_bytes }
}

impl LedgerEntry {
    /// Replaces the session's recorded usage.
    pub fn update(&mut self, bytes: u64) {
        self.totals.bytes.fetch_add(bytes, Ordering::SeqCst);
        self.totals.bytes.fetch_sub(self.bytes, Ordering::SeqCst);
        self.bytes = bytes;
    }

    /// Checks whether the total of all sessions may grow by `bytes`.
    pub fn check(&self, limits: &Limits, bytes: u64) -> Result<(), TooMany> {
        let used = self.totals.bytes.load(Ordering::SeqCst).saturating_add(bytes);
        if used > limits.session_total_bytes { Err(over_bytes(used, limits)) } else { Ok(()) }
    }

    /// Returns a reservation for the growth of the session's guest until the next update.
    pub fn reservation(&self, limits: &Limits) -> Reservation {
        Reservation { totals: Arc::clone(&self.totals), max: limits.session_total_bytes, bytes: 0 }
    }

    /// Returns the recorded usage in bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl Drop for LedgerEntry {
    fn drop(&mut self) {
        self.update(0);
        self.totals.count.fetch_sub(1, Ordering::SeqCst);
    }
}

/// The growth of a session's guest since the last update of its ledger entry. Released on drop.
#[derive(Debug)]
pub struct Reservation {
    totals: Arc<Totals>,
    max: u64,
    bytes: u64,
}

impl Reservation {
    /// Reserves another `bytes`. Returns `false`, and reserves nothing, if the total would exceed the limit.
    pub fn reserve(&mut self, bytes: u64) -> bool {
        let fits = self.totals.reserve(bytes, self.max).is_ok();
        if fits {
            self.bytes = self.bytes.saturating_add(bytes);
        }
        fits
    }

    /// Adds `bytes` that are already in use, without checking the limit. The total can exceed the limit only if other
    /// sessions have grown since the caller read [`available_bytes`](Self::available_bytes).
    pub fn add(&mut self, bytes: u64) {
        self.totals.bytes.fetch_add(bytes, Ordering::SeqCst);
        self.bytes = self.bytes.saturating_add(bytes);
    }

    /// Returns the number of bytes by which all sessions together may still grow.
    pub fn available_bytes(&self) -> u64 {
        self.max.saturating_sub(self.totals.bytes.load(Ordering::SeqCst))
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.totals.bytes.fetch_sub(self.bytes, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(session_total_bytes: u64) -> Limits {
        Limits { session_total_bytes, ..Limits::default() }
    }

    fn over(used: u64) -> TooMany {
        TooMany { key: "limits.session_total_bytes", used, max: 100 }
    }

    #[test]
    fn ledger_counts_open_sessions() {
        let ledger = SessionLedger::default();
        let limits = Limits { session_count: 2, ..Limits::default() };
        let first = ledger.enter(&limits, 0).unwrap();
        let _second = ledger.enter(&limits, 0).expect("at");
        let over = ledger.enter(&limits, 0).unwrap_err();
        assert_eq!(over, TooMany { key: "limits.session_count", used: 3, max: 2 });
        drop(first);
        assert!(ledger.enter(&limits, 0).is_ok(), "usable after");
    }

    #[test]
    fn total_session_bytes_are_limited() {
        let ledger = SessionLedger::default();
        let limits = bytes(100);
        let mut one = ledger.enter(&limits, 60).unwrap();
        assert_eq!(ledger.enter(&limits, 41).unwrap_err(), over(101), "over");
        let mut other = ledger.enter(&limits, 40).expect("at, because a refused session reserves nothing");
        assert_eq!((one.check(&limits, 0), one.check(&limits, 1)), (Ok(()), Err(over(101))));
        other.update(39);
        assert_eq!(one.check(&limits, 1), Ok(()));
        // `update` checks no limit, because the measured memory is already in use.
        one.update(62);
        assert_eq!((one.check(&limits, 0), ledger.enter(&limits, 0).err()), (Err(over(101)), Some(over(101))));
        assert_eq!(other.bytes(), 39);
        drop(other);
        assert!(ledger.enter(&limits, 38).is_ok(), "usable after");
    }

    #[test]
    fn reservation_over_the_limit_is_rejected_and_released() {
        let ledger = SessionLedger::default();
        let limits = bytes(100);
        let (one, other) = (ledger.enter(&limits, 50).unwrap(), ledger.enter(&limits, 0).unwrap());
        let mut first = one.reservation(&limits);
        let mut second = other.reservation(&limits);
        assert!(first.reserve(30), "under");
        assert!(!second.reserve(21), "over");
        assert!(second.reserve(20), "at");
        assert!(second.reserve(0) && !first.reserve(1) && first.available_bytes() == 0);
        first.add(1);
        assert_eq!((other.check(&limits, 0), second.available_bytes()), (Err(over(101)), 0));
        drop(first);
        assert_eq!(second.available_bytes(), 30);
        drop(second);
        assert_eq!(other.check(&limits, 50), Ok(()));
    }

    #[test]
    fn concurrent_reservations_stay_within_the_limit() {
        let ledger = SessionLedger::default();
        let limits = bytes(10_000);
        let taken = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4)
                .map(|_| {
                    let (place, limits) = (ledger.enter(&limits, 0).unwrap(), &limits);
                    scope.spawn(move || {
                        let mut reservation = place.reservation(limits);
                        let taken = (0..5_000).filter(|_| reservation.reserve(7)).count();
                        (taken, reservation, place)
                    })
                })
                .collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect::<Vec<_>>()
        });
        assert_eq!(taken.iter().map(|(count, ..)| count).sum::<usize>(), 10_000 / 7);
    }
}
