//! Instances that have run one script, are as their image again, and wait for the next.
//!
//! Dropping an instance and making another costs more than most scripts: the kernel takes pages away and, fault by fault, gives them
//! back, and threads of one process interrupt each other for it. An instance that ended well is restored instead. The pages that it may
//! have written to are known ([`private_pages`](crate::private_pages)); they are copied from the image, as are the globals. Its tables and segments cannot differ: the
//! image's code has no instruction that changes one ([`rewrite::changes_only_memory_and_globals`]). Its store gets a new [`State`].
//!
//! An instance is dropped when it was unwound, left by itself, grew its memory, or wrote to so many pages that a new one is cheaper; where
//! the system has no page map, always. Programs that run one script have no pool, and none is kept for them.
//!
//! [`rewrite::changes_only_memory_and_globals`]: glovebox_runtimes::rewrite::changes_only_memory_and_globals
//! [`State`]: crate::state::State

use std::{
    num::NonZero,
    sync::{Mutex, PoisonError},
    thread,
};

use glovebox_core::session::PAGE_BYTES;
use glovebox_interpreters::Machine;

use crate::{
    PoolConfig,
    machine::GuestMachine,
    platform::EnginePlatform,
    session::{Pristine, bits},
    state::State,
};

/// The restored instances of a runtime, the one that was used last on top: its memory is in the processor's cache.
pub(crate) struct RecycledInstances {
    waiting: Mutex<Vec<GuestMachine>>,
    /// More than run at once are of no use.
    max_count: usize,
    /// An instance that has private copies of more pages is dropped. Pages once written stay private, so that this bounds both what
    /// restoring one costs and what one that waits holds.
    max_private_pages: usize,
}

impl RecycledInstances {
    /// None yet.
    pub(crate) fn new(pool: &PoolConfig) -> Self {
        let cores = thread::available_parallelism().map_or(1, NonZero::get);
        let max_private_pages = pool.keep_resident_bytes / PAGE_BYTES;
        Self { waiting: Mutex::default(), max_count: 2 * cores, max_private_pages }
    }

    /// One of them.
    pub(crate) fn take(&self) -> Option<GuestMachine> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).pop()
    }

    /// Restores an instance to its image and keeps it, or drops it.
    pub(crate) fn give(&self, mut machine: GuestMachine, pristine: &Pristine) {
        if restore(&mut machine, pristine, self.max_private_pages) {
            self.put_back(machine);
        }
    }

    /// Keeps an instance that is as its image.
    pub(crate) fn put_back(&self, machine: GuestMachine) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        if waiting.len() < self.max_count {
            waiting.push(machine);
        } else {
            // Not while others wait for the lock.
            drop(waiting);
            drop(machine);
        }
    }

    /// Drops them all; says whether there were any.
    pub(crate) fn clear(&self) -> bool {
        let waiting = std::mem::take(&mut *self.waiting.lock().unwrap_or_else(PoisonError::into_inner));
        !waiting.is_empty()
    }

    /// How one of the waiting instances differs from a new one, byte for byte, and what the globals of these names and its table hold; how
    /// many there are where none does.
    pub(crate) fn compare(&self, new: &mut GuestMachine, globals: &[(String, u64)]) -> Result<usize, String> {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        for machine in waiting.iter_mut() {
            if machine.memory() != new.memory() {
                let pages = |machine: &GuestMachine| machine.memory().len() / PAGE_BYTES;
                let mut both = machine.memory().chunks(PAGE_BYTES).zip(new.memory().chunks(PAGE_BYTES));
                let first = both.position(|(one, other)| one != other);
                return Err(format!("{} pages and not {}, or page {first:?}", pages(machine), pages(new)));
            }
            for (name, _) in globals {
                let bits = |machine: &mut GuestMachine| machine.global_value(name).as_ref().and_then(bits);
                let (found, expected) = (bits(machine), bits(new));
                if found != expected || found.is_none() {
                    return Err(format!("global `{name}` is {found:?}, and not {expected:?}"));
                }
            }
            let (found, expected) = (machine.table_types(), new.table_types());
            if found != expected {
                return Err(format!("a table of {} functions, and not {}", found.len(), expected.len()));
            }
        }
        Ok(waiting.len())
    }
}

/// Makes an instance what its image is. False where it has to be dropped: then it may be anything in between.
fn restore(machine: &mut GuestMachine, pristine: &Pristine, max_private_pages: usize) -> bool {
    if machine.memory_bytes() != pristine.memory_bytes() {
        return false;
    }
    let Some(pages) = machine.restore_memory(max_private_pages, |number| pristine.page(number)) else { return false };
    tracing::trace!(pages, "an instance that has run has so many pages of its own");
    for (name, value) in pristine.globals() {
        if machine.set_global_bits(name, *value).is_none() {
            return false;
        }
    }
    // What the host held for the script goes now, and not when the next one comes.
    machine.renew(State::new(Box::default(), u64::MAX.into(), EnginePlatform::over())).is_ok()
}
