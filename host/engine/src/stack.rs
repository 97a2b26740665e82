//! Stacks of a known size for guests to run on.
//!
//! `max_wasm_stack` is counted from wherever the stack pointer happens to be and never compared with the thread's real
//! stack, so a deep guest on a small thread would abort the host. Guests therefore never run on their caller's
//! stack: they run on one of these, guard page below, whatever thread calls.

use std::io;

use corosensei::{on_stack, stack::DefaultStack};

use crate::reuse::Reuse;

/// The native stack a guest may use; more is a trap. QuickJS counts 320 KiB of its own stack and needs up to 40 times
/// that of the native one before its `RangeError` comes (measured: 4 MiB fail 12 of 150 hostile scripts, 8 MiB pass
/// them all). CPython's own limits come first at 1 MiB; the recursions it does not check take at most as much of its C
/// stack as of this one, so that its 24 MiB are never overrun.
pub(crate) const GUEST_STACK_BYTES: usize = 16 << 20;

/// What the host's own functions may use below a guest that is as deep as it may be.
const HOST_STACK_BYTES: usize = 1 << 20;

/// How many unused stacks are held. What a deep guest touched of one stays resident, so this bounds what is held for
/// nothing: 272 MiB if that many guests at once were as deep as they may be. More guests at once pay for a mapping each.
const IDLE_COUNT: usize = 16;

/// Stacks to run guests on, for reuse.
pub(crate) struct Stacks(Reuse<DefaultStack>);

impl Default for Stacks {
    fn default() -> Self {
        Self(Reuse::new(IDLE_COUNT))
    }
}

impl std::fmt::Debug for Stacks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Stacks").finish_non_exhaustive()
    }
}

impl Stacks {
    /// Runs `work` on a guest stack and waits for it. A panic in it goes on in the caller.
    pub(crate) fn run<R>(&self, work: impl FnOnce() -> R) -> io::Result<R> {
        let mut stack = match self.0.take() {
            Some(stack) => stack,
            None => DefaultStack::new(GUEST_STACK_BYTES + HOST_STACK_BYTES)?,
        };
        let result = on_stack(&mut stack, work);
        self.0.give(stack);
        Ok(result)
    }
}
