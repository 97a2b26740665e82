//! The host memory of a guest's tool calls, within the guest's memory limit.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

/// Bytes held by the threads of tools, and their room: the part of the memory limit that the guest's other usage
/// leaves. The threads take memory while the guest's own memory grows. A side that finds the sum too large gives back
/// the bytes it took, so the sum never exceeds the limit.
#[derive(Debug, Default)]
pub struct Account {
    held_bytes: AtomicU64,
    room_bytes: AtomicU64,
}

/// Bytes that are held until this is dropped.
#[derive(Debug)]
pub struct Held {
    account: Arc<Account>,
    bytes: u64,
}

impl Held {
    /// Returns the number of bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.account.held_bytes.fetch_sub(self.bytes, Ordering::SeqCst);
    }
}

impl Account {
    /// Returns the bytes held now.
    #[must_use]
    pub fn held_bytes(&self) -> u64 {
        self.held_bytes.load(Ordering::SeqCst)
    }

    /// Sets the room, regardless of the bytes held. Called only by the guest's thread.
    pub fn set_room(&self, bytes: u64) {
        self.room_bytes.store(bytes, Ordering::SeqCst);
    }

    /// Sets the room, unless more bytes are held. Returns whether the room was set. Called only by the guest's thread.
    pub fn try_set_room(&self, bytes: u64) -> bool {
        let before = self.room_bytes.swap(bytes, Ordering::SeqCst);
        if self.held_bytes() <= bytes {
            return true;
        }
        self.room_bytes.store(before, Ordering::SeqCst);
        false
    }

    /// Takes `bytes` of the room; `None` if there is not enough.
    #[must_use]
    pub fn hold(self: &Arc<Self>, bytes: u64) -> Option<Held> {
        let before = self.held_bytes.fetch_add(bytes, Ordering::SeqCst);
        let held = Held { account: Arc::clone(self), bytes };
        before.checked_add(bytes).is_some_and(|sum| sum <= self.room_bytes.load(Ordering::SeqCst)).then_some(held)
    }

    /// Takes a few bytes regardless of the room.
    #[must_use]
    pub fn hold_anyway(self: &Arc<Self>, bytes: u64) -> Held {
        self.held_bytes.fetch_add(bytes, Ordering::SeqCst);
        Held { account: Arc::clone(self), bytes }
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn what_is_held_has_a_bound() {
        let account = Arc::new(Account::default());
        account.set_room(100);
        let first = account.hold(99).unwrap();
        assert!(account.hold(2).is_none(), "over");
        let second = account.hold(1).expect("at");
        assert!(account.hold(u64::MAX).is_none(), "a sum that wraps fits nowhere");
        drop(first);
        assert_eq!(account.held_bytes(), 1);
        assert!(account.hold(99).is_some(), "usable after");
        drop(second);
        assert_eq!(account.held_bytes(), 0);
    }

    #[test]
    fn room_shrinks_only_to_what_is_held() {
        let account = Arc::new(Account::default());
        account.set_room(100);
        let _held = account.hold(50).unwrap();
        assert!(account.try_set_room(51), "under");
        assert!(account.try_set_room(50), "at");
        assert!(!account.try_set_room(49), "over");
        assert!(account.hold(1).is_none(), "the room is as it was");
    }

    #[test]
    fn two_that_take_at_once_never_have_more_than_there_is() {
        for _ in 0..2_000 {
            let account = Arc::new(Account::default());
            account.set_room(100);
            let taker = thread::spawn({
                let account = Arc::clone(&account);
                move || account.hold(60)
            });
            let shrunk = account.try_set_room(50);
            let held = taker.join().unwrap();
            assert!(!(shrunk && held.is_some()));
        }
    }
}
