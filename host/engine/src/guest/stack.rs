//! Stacks of a known size for guests to run on.
//!
//! `max_wasm_stack` is counted from the current stack pointer and never compared with the thread's real stack, so a
//! deep guest on a small thread would abort the host. Guests therefore never run on their caller's stack: they run on
//! one of these stacks, which have a guard page at the end, whatever thread calls.

use std::io;

use corosensei::{on_stack, stack::DefaultStack};

use crate::guest::reuse::Reuse;

/// Maximum native stack of a guest; using more is a trap. QuickJS counts 320 KiB of its own stack and needs up to 40
/// times that of the native one before its `RangeError` (measured: 4 MiB fail 12 of 150 hostile scripts, 8 MiB pass all
/// of them). CPython's own limits apply first, at 1 MiB. The recursions it does not check take at most as much of its C
/// stack as of this stack, so that its 24 MiB are never overrun.
pub(crate) const GUEST_STACK_BYTES: usize = 16 << 20;

/// Stack for the host's own functions when the guest has used its maximum.
const HOST_STACK_BYTES: usize = 1 << 20;

/// Maximum number of unused stacks. Pages that a deep guest touched stay resident, so this limits the unused memory:
/// 272 MiB if that many concurrent guests used their whole stacks. Further concurrent guests need a new mapping each.
const IDLE_COUNT: usize = 16;

/// A collection of reusable stacks for guests.
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
    /// Runs `work` on a guest stack and waits for it. A panic in `work` continues in the caller.
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
