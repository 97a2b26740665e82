//! Finds the pages of a mapping that this process has written to, with the kernel's page map.

use std::{cell::RefCell, fs::File, os::unix::fs::FileExt, process};

use glovebox_core::session::PAGE_BYTES;

/// Bytes per page in `/proc/self/pagemap`.
const ENTRY_BYTES: usize = 8;

/// Number of entries to read at once: 16 MiB of memory, about the size of an interpreter.
const ENTRIES_AT_ONCE: usize = 4096;

/// Returns the numbers of the pages of `memory` that may differ from the mapped file, in ascending order: pages that
/// were written to, and pages that the system has swapped out. Returns `None` if the system does not provide them.
pub(crate) fn private_pages(memory: &[u8]) -> Option<Vec<u32>> {
    // <https://www.kernel.org/doc/Documentation/admin-guide/mm/pagemap.rst>
    const PRESENT: u64 = 1 << 63;
    const SWAPPED: u64 = 1 << 62;
    const FILE_OR_SHARED: u64 = 1 << 61;
    // Only where pages are known to have 4 KiB, and where the flags were verified to have this meaning.
    if !cfg!(all(target_os = "linux", target_arch = "x86_64")) {
        return None;
    }
    let first = memory.as_ptr().addr();
    if !first.is_multiple_of(PAGE_BYTES) || !memory.len().is_multiple_of(PAGE_BYTES) {
        return None;
    }
    let mut at = u64::try_from((first / PAGE_BYTES).checked_mul(ENTRY_BYTES)?).ok()?;
    let count = memory.len() / PAGE_BYTES;
    let mut pages = Vec::new();
    with_page_map(|PageMap { file, entries, .. }| {
        let mut page = 0;
        while page < count {
            let entries = entries.get_mut(..ENTRIES_AT_ONCE.min(count - page))?;
            let bytes = entries.as_flattened_mut();
            file.read_exact_at(bytes, at).ok()?;
            at = at.checked_add(u64::try_from(bytes.len()).ok()?)?;
            for (entry, number) in entries.iter().zip(page..) {
                let flags = u64::from_ne_bytes(*entry);
                if flags & SWAPPED != 0 || flags & (PRESENT | FILE_OR_SHARED) == PRESENT {
                    pages.push(u32::try_from(number).ok()?);
                }
            }
            page += entries.len();
        }
        Some(())
    })?;
    Some(pages)
}

/// The open page map of a process, and a buffer to read it into.
struct PageMap {
    /// After a fork, the file would still show the parent's pages, so the process is compared.
    process: u32,
    file: File,
    entries: Vec<[u8; ENTRY_BYTES]>,
}

/// Runs `call` with this thread's open page map. Returns `None` if the map cannot be opened, or if `call` returns
/// `None`.
fn with_page_map<R>(call: impl FnOnce(&mut PageMap) -> Option<R>) -> Option<R> {
    thread_local! {
        static MAP: RefCell<Option<PageMap>> = const { RefCell::new(None) };
    }
    MAP.with_borrow_mut(|map| {
        if map.as_ref().is_none_or(|map| map.process != process::id()) {
            let file = File::open("/proc/self/pagemap").ok()?;
            *map = Some(PageMap { process: process::id(), file, entries: vec![[0; ENTRY_BYTES]; ENTRIES_AT_ONCE] });
        }
        call(map.as_mut()?)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_to_is_found_and_what_is_not_aligned_is_not_asked_about() {
        let whole = vec![1_u8; 64 * PAGE_BYTES];
        let from = whole.as_ptr().align_offset(PAGE_BYTES);
        let memory = &whole[from..from + 32 * PAGE_BYTES];
        let is_told = cfg!(all(target_os = "linux", target_arch = "x86_64"));
        assert_eq!(private_pages(memory), is_told.then(|| (0..32).collect()));
        assert_eq!(private_pages(&memory[1..]), None);
        assert_eq!(private_pages(&memory[..PAGE_BYTES + 1]), None);
    }
}
