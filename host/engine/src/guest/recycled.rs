//! Recycled instances: they have run one script, were restored to their image, and wait for the next script.
//!
//! Dropping an instance and creating another costs more than most scripts. The kernel unmaps pages and maps them again
//! fault by fault, and threads of one process interrupt each other for it. An instance whose script ended normally is
//! restored instead. The private pages are known ([`private_pages`](crate::private_pages)), and are copied from the
//! image, as are the globals. Tables and segments cannot differ, because the image's code has no instruction that
//! changes them ([`rewrite::changes_only_memory_and_globals`]). The store gets a new [`State`].
//!
//! An instance is dropped if it was unwound, exited, or grew its memory. It is also dropped if restoring its private
//! pages would take long compared with its script, and on systems without a page map. Programs that run a single script
//! use no pool, and recycle no instances.
//!
//! [`rewrite::changes_only_memory_and_globals`]: glovebox_runtimes::rewrite::changes_only_memory_and_globals
//! [`State`]: crate::guest::state::State

use std::{num::NonZero, thread, time::Duration};

use glovebox_core::session::PAGE_BYTES;
use glovebox_interpreters::Machine;

use crate::{
    PoolConfig,
    exec::platform::EnginePlatform,
    guest::{machine::GuestMachine, reuse::Reuse, state::State},
    session::{Pristine, bits},
};

/// The restored instances of a runtime.
pub(crate) struct RecycledInstances {
    waiting: Reuse<GuestMachine>,
    /// An instance with at most this many private pages is always restored. Pages stay private once they are written,
    /// so each later script may have to wait for all of them to be restored.
    max_private_pages: usize,
}

/// Multiple of [`RecycledInstances::max_private_pages`] that is still worth restoring after a long script, and the most
/// an idle instance holds.
const MAX_TIMES: usize = 8;

impl RecycledInstances {
    /// Creates an empty collection.
    pub(crate) fn new(pool: &PoolConfig) -> Self {
        let cores = thread::available_parallelism().map_or(1, NonZero::get);
        let max_private_pages = pool.keep_resident_bytes / PAGE_BYTES;
        // More instances than can run at once are useless.
        Self { waiting: Reuse::new(2 * cores), max_private_pages }
    }

    pub(crate) fn take(&self) -> Option<GuestMachine> {
        self.waiting.take()
    }

    /// Restores an instance to its image and stores it, or drops it. `took` is the duration of its script.
    pub(crate) fn give(&self, mut machine: GuestMachine, pristine: &Pristine, took: Duration) {
        if restore(&mut machine, pristine, self.max_pages(took)) {
            self.put_back(machine);
        }
    }

    /// Returns the number of pages worth restoring: one per microsecond of the script, because copying a page takes
    /// less than that. With a new instance the system would have to copy them too, fault by fault.
    fn max_pages(&self, took: Duration) -> usize {
        let worth = usize::try_from(took.as_micros()).unwrap_or(usize::MAX);
        worth.clamp(self.max_private_pages, self.max_private_pages.saturating_mul(MAX_TIMES))
    }

    /// Stores an instance that equals its image.
    pub(crate) fn put_back(&self, machine: GuestMachine) {
        self.waiting.give(machine);
    }

    /// Drops all instances. Returns `true` if there were any.
    pub(crate) fn clear(&self) -> bool {
        self.waiting.take_all().count() > 0
    }

    /// Compares all idle instances with a new one: the memory byte for byte, the named globals, and the types in the
    /// table. Returns the number of idle instances, or a description of the first difference.
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

/// Restores an instance to its image. Returns `false` if the instance must be dropped, because it may be partly
/// restored.
fn restore(machine: &mut GuestMachine, pristine: &Pristine, max_private_pages: usize) -> bool {
    if machine.memory_bytes() != pristine.memory_bytes() {
        return false;
    }
    let Some(pages) = machine.restore_memory(max_private_pages, |number| pristine.page(number)) else { return false };
    tracing::trace!(pages, "private pages of an instance after its script");
    for (name, value) in pristine.globals() {
        if machine.set_global_bits(name, *value).is_none() {
            return false;
        }
    }
    // Frees the host's buffers of the script now instead of before the next script.
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
