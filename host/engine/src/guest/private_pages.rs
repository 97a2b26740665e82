//! Finds the private pages of a guest's memory. Reads the page map only if there can be new private pages.
//!
//! A memory is a private mapping of its image. The first write to a page causes a page fault, which makes the page
//! private for the lifetime of the mapping. The kernel counts each thread's page faults. The private pages are
//! unchanged if only one thread has written to the memory since the last scan, and that thread has had no page fault.
//! Reading the fault count takes a fraction of a microsecond. Reading the page map of an interpreter's memory takes 60
//! microseconds, and concurrent readers wait for each other.
//!
//! Pages can also become private without a fault. A memory can grow into pages that the previous guest left in the
//! slot, and the kernel can replace small pages with huge pages on its own. Both cases are checked separately.

use std::{
    cell::RefCell,
    fs::File,
    os::unix::fs::FileExt,
    process,
    thread::{self, ThreadId},
};

use glovebox_core::session::PAGE_BYTES;

/// The known private pages of one memory.
///
/// The writing thread must announce each write to the memory with [`before_write`](Self::before_write), except writes
/// to pages that are already private.
#[derive(Debug, Default)]
pub(crate) struct PrivatePages {
    /// Page numbers as of the last `scan`, in ascending order.
    numbers: Vec<u32>,
    /// The length of the memory at the last `scan`. Memory beyond this length can contain private pages of the slot's
    /// previous guest.
    len: usize,
    since: WritesSinceScan,
}

/// Writes to the memory since the last `scan`.
#[derive(Debug, Default)]
enum WritesSinceScan {
    /// `scan` has not been called yet, several threads have written, or page faults cannot be counted.
    #[default]
    Unknown,
    /// No writes.
    Idle,
    /// Only this thread may have written. The number is the thread's page fault count before its first write.
    Written(ThreadId, u64),
}

impl PrivatePages {
    /// Announces a write. Must be called before each write to the memory, and before the guest runs.
    pub(crate) fn before_write(&mut self) {
        let thread = thread::current().id();
        match self.since {
            WritesSinceScan::Idle => {
                self.since = faults().map_or(WritesSinceScan::Unknown, |count| WritesSinceScan::Written(thread, count))
            }
            WritesSinceScan::Written(writer, _) if writer != thread => self.since = WritesSinceScan::Unknown,
            WritesSinceScan::Written(..) | WritesSinceScan::Unknown => {}
        }
    }

    /// Returns the numbers of the pages in `memory` that may differ from its image, in ascending order. Returns `None`
    /// if the system does not expose private pages.
    pub(crate) fn scan(&mut self, memory: &[u8]) -> Option<&[u32]> {
        let is_known = match self.since {
            WritesSinceScan::Unknown => false,
            _ if memory.len() != self.len => false,
            WritesSinceScan::Idle => true,
            WritesSinceScan::Written(writer, count) => writer == thread::current().id() && faults() == Some(count),
        };
        if !is_known {
            self.since = WritesSinceScan::Unknown;
            self.numbers = private_pages(memory)?;
            self.len = memory.len();
        }
        self.since = WritesSinceScan::Idle;
        Some(&self.numbers)
    }
}

/// Returns this thread's number of page faults. Returns `None` if the system does not count page faults, or can make
/// pages private without a fault.
#[cfg(target_os = "linux")]
fn faults() -> Option<u64> {
    use std::{fs, hint::black_box, path::Path, sync::OnceLock};

    use nix::sys::resource::{UsageWho, getrusage};

    /// The size of the probe allocation: larger than any block that an allocator reuses without first returning it to
    /// the system.
    const FRESH_BYTES: usize = 64 << 20;

    fn count() -> Option<u64> {
        let usage = getrusage(UsageWho::RUSAGE_THREAD).ok()?;
        u64::try_from(usage.minor_page_faults().checked_add(usage.major_page_faults())?).ok()
    }

    /// Returns `true` if the setting for huge pages is `always` instead of `madvise`. The kernel may then replace small
    /// pages with huge pages on its own, which causes no page fault in any thread. Unreadable settings are treated as
    /// disabled.
    fn has_automatic_huge_pages() -> bool {
        let directory = Path::new("/sys/kernel/mm/transparent_hugepage");
        let sizes = fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path().join("enabled"));
        let mut settings = sizes.chain([directory.join("enabled")]);
        settings.any(|setting| fs::read_to_string(setting).is_ok_and(|text| text.contains("[always]")))
    }

    // Systems that emulate Linux might not count page faults.
    static ARE_COUNTED: OnceLock<bool> = OnceLock::new();
    let are_counted = ARE_COUNTED.get_or_init(|| {
        if has_automatic_huge_pages() {
            return false;
        }
        let before = count();
        let mut fresh = vec![0_u8; FRESH_BYTES];
        for byte in black_box(&mut fresh).iter_mut().step_by(FRESH_BYTES / 4) {
            *byte = 1;
        }
        black_box(fresh);
        before < count()
    });
    are_counted.then(count)?
}

#[cfg(not(target_os = "linux"))]
fn faults() -> Option<u64> {
    None
}

/// The size of an entry in `/proc/self/pagemap`, one per page.
const ENTRY_BYTES: usize = 8;

/// The number of entries to read with one system call: 16 MiB of memory, about the size of an interpreter.
const ENTRIES_AT_ONCE: usize = 4096;

/// Returns the numbers of the pages in `memory` that may differ from the mapped file, in ascending order. These are the
/// pages that were written or swapped out. Returns `None` if the system does not expose private pages, or if `memory`
/// does not consist of whole pages.
pub(crate) fn private_pages(memory: &[u8]) -> Option<Vec<u32>> {
    // <https://www.kernel.org/doc/Documentation/admin-guide/mm/pagemap.rst>
    const PRESENT: u64 = 1 << 63;
    const SWAPPED: u64 = 1 << 62;
    const FILE_OR_SHARED: u64 = 1 << 61;
    // Supported only on systems with 4 KiB pages, where these flags were verified.
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

/// The open page map of a process, with a read buffer.
struct PageMap {
    /// The process that opened the file. After a fork, the file would still show the parent's pages.
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
    use wasmtime::{Engine, Instance, Memory, Module, Store};

    use super::*;

    /// Returns a new memory of 64 small pages, initialized from an image.
    fn memory() -> (Store<()>, Memory) {
        let engine = Engine::default();
        // (module (memory (export "m") 4) (data (i32.const 0) "image"))
        let module = b"\0asm\x01\0\0\0\x05\x03\x01\0\x04\x07\x05\x01\x01m\x02\0\x0b\x0b\x01\0\x41\0\x0b\x05image";
        let module = Module::new(&engine, module).unwrap();
        let mut store = Store::new(&engine, ());
        let instance = Instance::new(&mut store, &module, &[]).unwrap();
        let memory = instance.get_memory(&mut store, "m").unwrap();
        (store, memory)
    }

    fn write(pages: &mut PrivatePages, store: &mut Store<()>, memory: Memory, page: usize) {
        pages.before_write();
        memory.data_mut(store)[page * 4096] ^= 0xff;
    }

    #[test]
    fn written_pages_are_found_by_every_scan() {
        let (mut store, memory) = memory();
        let mut pages = PrivatePages::default();
        let Some(_) = pages.scan(memory.data(&store)) else { return };
        for round in 0..3 {
            for page in [3, 3, 40, 7, 63, 40] {
                write(&mut pages, &mut store, memory, page);
                let found = pages.scan(memory.data(&store)).unwrap().to_vec();
                assert_eq!(found, private_pages(memory.data(&store)).unwrap(), "{page} in round {round}");
                assert!(found.contains(&u32::try_from(page).unwrap()));
            }
            // A second thread writes between two writes of this thread.
            write(&mut pages, &mut store, memory, 20 + round);
            thread::scope(|scope| drop(scope.spawn(|| write(&mut pages, &mut store, memory, 30 + round))));
            write(&mut pages, &mut store, memory, 40 + round);
            let found = pages.scan(memory.data(&store)).unwrap().to_vec();
            assert_eq!(found, private_pages(memory.data(&store)).unwrap());
            // Only another thread writes.
            thread::scope(|scope| drop(scope.spawn(|| write(&mut pages, &mut store, memory, 50 + round))));
            let found = pages.scan(memory.data(&store)).unwrap().to_vec();
            assert_eq!(found, private_pages(memory.data(&store)).unwrap());
        }
    }

    #[test]
    fn the_page_map_is_read_only_after_a_fault() {
        let (mut store, memory) = memory();
        let mut pages = PrivatePages::default();
        if pages.scan(memory.data(&store)).is_none() || faults().is_none() {
            return;
        }
        write(&mut pages, &mut store, memory, 5);
        let found = pages.scan(memory.data(&store)).unwrap().to_vec();
        let len = memory.data_size(&store);
        let elsewhere = vec![0; len + 1];
        let at = usize::from(elsewhere.as_ptr().align_offset(4096) == 0);
        // The page map of an unaligned address cannot be read, so a result proves that the scan did not read it. The
        // test retries, because this thread can have an unrelated page fault.
        let is_known = (0..100).any(|_| {
            pages.scan(memory.data(&store)).unwrap();
            write(&mut pages, &mut store, memory, 5);
            pages.scan(&elsewhere[at..][..len]).is_some_and(|numbers| numbers == found)
        });
        assert!(is_known);
    }

    #[test]
    fn written_pages_are_found_and_unaligned_ranges_rejected() {
        let whole = vec![1_u8; 64 * PAGE_BYTES];
        let from = whole.as_ptr().align_offset(PAGE_BYTES);
        let memory = &whole[from..from + 32 * PAGE_BYTES];
        let is_supported = cfg!(all(target_os = "linux", target_arch = "x86_64"));
        assert_eq!(private_pages(memory), is_supported.then(|| (0..32).collect()));
        assert_eq!(private_pages(&memory[1..]), None);
        assert_eq!(private_pages(&memory[..PAGE_BYTES + 1]), None);
    }
}
