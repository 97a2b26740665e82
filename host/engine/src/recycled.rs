//! Recycled instances: they have run one script, were restored to their image, and wait for the next script.
//!
//! Dropping an instance and making another costs more than most scripts: the kernel takes pages away and, fault by fault, gives them
//! back, and threads of one process interrupt each other for it. An instance that ended well is restored instead. The pages that it may
//! have written to are known ([`private_pages`](crate::private_pages)); they are copied from the image, as are the globals. Its tables and
//! segments cannot differ: the image's code has no instruction that changes one
//! ([`rewrite::changes_only_memory_and_globals`]). Its store gets a new [`State`].
//!
//! An instance is dropped when it was unwound, left by itself, grew its memory, or has so many pages of its own that restoring it would be
//! much beside what its script took; where the system has no page map, always. Programs that run one script have no pool, and none is made for them.
//!
//! [`rewrite::changes_only_memory_and_globals`]: glovebox_runtimes::rewrite::changes_only_memory_and_globals
//! [`State`]: crate::state::State

use std::{num::NonZero, thread, time::Duration};

use glovebox_core::session::PAGE_BYTES;
use glovebox_interpreters::Machine;

use crate::{
    PoolConfig,
    machine::GuestMachine,
    platform::EnginePlatform,
    reuse::Reuse,
    session::{Pristine, bits},
    state::State,
};

/// The restored instances of a runtime.
pub(crate) struct RecycledInstances {
    waiting: Reuse<GuestMachine>,
    /// An instance with no more private pages is restored in any case. Pages once written stay private: this is what each later script may
    /// have to wait for.
    max_private_pages: usize,
}

/// How many times [`RecycledInstances::max_private_pages`] an instance may have whose script took long. One that waits holds no more.
const MAX_TIMES: usize = 8;

impl RecycledInstances {
    /// None yet.
    pub(crate) fn new(pool: &PoolConfig) -> Self {
        let cores = thread::available_parallelism().map_or(1, NonZero::get);
        let max_private_pages = pool.keep_resident_bytes / PAGE_BYTES;
        // More than run at once are of no use.
        Self { waiting: Reuse::new(2 * cores), max_private_pages }
    }

    /// One of them.
    pub(crate) fn take(&self) -> Option<GuestMachine> {
        self.waiting.take()
    }

    /// Restores an instance to its image and stores it, or drops it. `took`: how long its script ran.
    pub(crate) fn give(&self, mut machine: GuestMachine, pristine: &Pristine, took: Duration) {
        if restore(&mut machine, pristine, self.max_pages(took)) {
            self.put_back(machine);
        }
    }

    /// How many pages are worth restoring: one for each microsecond, which copying one takes a part of. A new instance would have the
    /// system copy them again, fault by fault.
    fn max_pages(&self, took: Duration) -> usize {
        let worth = usize::try_from(took.as_micros()).unwrap_or(usize::MAX);
        worth.clamp(self.max_private_pages, self.max_private_pages.saturating_mul(MAX_TIMES))
    }

    /// Stores an instance that equals its image.
    pub(crate) fn put_back(&self, machine: GuestMachine) {
        self.waiting.give(machine);
    }

    /// Drops them all; says whether there were any.
    pub(crate) fn clear(&self) -> bool {
        self.waiting.take_all().count() > 0
    }

    /// How one of the waiting instances differs from a new one, byte for byte, and what the globals of these names and its table hold; how
    /// many there are where none does.
    pub(crate) fn compare(&self, new: &mut GuestMachine, globals: &[(String, u64)]) -> Result<usize, String> {
        let mut waiting: Vec<_> = self.waiting.take_all().collect();
        waiting.iter_mut().try_for_each(|machine| compare(machine, new, globals))?;
        let count = waiting.len();
        waiting.into_iter().for_each(|machine| self.put_back(machine));
        Ok(count)
    }
}

fn compare(machine: &mut GuestMachine, new: &mut GuestMachine, globals: &[(String, u64)]) -> Result<(), String> {
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
    Ok(())
}

/// Restores an instance to its image. False if it has to be dropped: then it may be partly restored.
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
    // Frees what the host held for the script now, not when the next one comes.
    machine.renew(State::new(Box::default(), u64::MAX.into(), EnginePlatform::over())).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longer_a_script_ran_the_more_pages_are_worth_restoring() {
        let all =
            RecycledInstances::new(&PoolConfig { keep_resident_bytes: 100 * PAGE_BYTES, ..PoolConfig::default() });
        for (micros, pages) in [(0, 100), (100, 100), (101, 101), (800, 800), (801, 800), (u64::MAX, 800)] {
            assert_eq!(all.max_pages(Duration::from_micros(micros)), pages, "{micros}");
        }
        let none = RecycledInstances::new(&PoolConfig { keep_resident_bytes: 0, ..PoolConfig::default() });
        assert_eq!(none.max_pages(Duration::from_secs(1)), 0);
    }
}
