//! The private pages of a guest's memory, read from the system only when there may be more of them.
//!
//! A memory is a private mapping of its image. A page becomes the memory's own at the first write to it, by a page fault, and stays so for
//! as long as the mapping lives. The kernel counts each thread's page faults. Where a memory's pages are known, and the only thread that
//! has written to it since has had no fault meanwhile, they are what they were. Asking for the count costs a fraction of a microsecond;
//! reading the page map of an interpreter's memory costs 60, and threads that read it wait for each other.
//!
//! Two things make pages a memory's own without a fault, and are looked for: growing into what the last guest in its place left,
//! and huge pages that the kernel makes of small ones by itself.

use std::thread::{self, ThreadId};

use crate::pagemap::private_pages;

/// The known private pages of one memory.
///
/// Every write to the memory must be announced by the thread that makes it ([`before_write`](Self::before_write)), but for writes to pages
/// that are the memory's own already.
#[derive(Debug, Default)]
pub(crate) struct PrivatePages {
    /// As of the last look, in order.
    numbers: Vec<u32>,
    /// The memory's length then. What it has grown by may have pages already: those that the last guest in its place left.
    len: usize,
    since: Since,
}

/// What has happened to the memory since the last look.
#[derive(Debug, Default)]
enum Since {
    /// Unknown: nobody has looked yet, or several threads have written.
    #[default]
    Unknown,
    /// Nothing was written.
    Idle,
    /// This thread may have written. Its fault count before that.
    Written(ThreadId, u64),
}

impl PrivatePages {
    /// Must be called before a write to the memory, and before the guest runs.
    pub(crate) fn before_write(&mut self) {
        let thread = thread::current().id();
        match self.since {
            Since::Idle => self.since = faults().map_or(Since::Unknown, |count| Since::Written(thread, count)),
            Since::Written(writer, _) if writer != thread => self.since = Since::Unknown,
            Since::Written(..) | Since::Unknown => {}
        }
    }

    /// The pages of `memory`, by their number and in order, that may differ from what was mapped there. `None` where the system does
    /// not tell.
    pub(crate) fn look(&mut self, memory: &[u8]) -> Option<&[u32]> {
        let is_known = match self.since {
            Since::Unknown => false,
            _ if memory.len() != self.len => false,
            Since::Idle => true,
            Since::Written(writer, count) => writer == thread::current().id() && faults() == Some(count),
        };
        if !is_known {
            self.since = Since::Unknown;
            self.numbers = private_pages(memory)?;
            self.len = memory.len();
        }
        self.since = Since::Idle;
        Some(&self.numbers)
    }
}

/// How many page faults this thread has had. `None` where the system does not count them.
#[cfg(target_os = "linux")]
fn faults() -> Option<u64> {
    use std::{fs, hint::black_box, path::Path, sync::OnceLock};

    use nix::sys::resource::{UsageWho, getrusage};

    /// More than any allocator hands out again without having given it back to the system.
    const FRESH_BYTES: usize = 64 << 20;

    fn count() -> Option<u64> {
        let usage = getrusage(UsageWho::RUSAGE_THREAD).ok()?;
        u64::try_from(usage.minor_page_faults().checked_add(usage.major_page_faults())?).ok()
    }

    /// Whether the system may put huge pages in the place of small ones by itself, which is no fault of anybody's: where they are to be
    /// used `always`, and not only where a program asks for them. What cannot be read is taken for a system without them.
    fn has_huge_pages_unasked() -> bool {
        let directory = Path::new("/sys/kernel/mm/transparent_hugepage");
        let sizes = fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path().join("enabled"));
        let mut settings = sizes.chain([directory.join("enabled")]);
        settings.any(|setting| fs::read_to_string(setting).is_ok_and(|text| text.contains("[always]")))
    }

    // Some systems that pass for Linux count none.
    static ARE_COUNTED: OnceLock<bool> = OnceLock::new();
    let are_counted = ARE_COUNTED.get_or_init(|| {
        if has_huge_pages_unasked() {
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

#[cfg(test)]
mod tests {
    use wasmtime::{Engine, Instance, Memory, Module, Store};

    use super::*;

    /// A memory of 64 pages with an image, fresh from the system.
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
    fn pages_written_to_are_found_whoever_wrote_and_however_often_somebody_looked() {
        let (mut store, memory) = memory();
        let mut pages = PrivatePages::default();
        let Some(_) = pages.look(memory.data(&store)) else { return };
        for round in 0..3 {
            for page in [3, 3, 40, 7, 63, 40] {
                write(&mut pages, &mut store, memory, page);
                let found = pages.look(memory.data(&store)).unwrap().to_vec();
                assert_eq!(found, private_pages(memory.data(&store)).unwrap(), "{page} in round {round}");
                assert!(found.contains(&u32::try_from(page).unwrap()));
            }
            // From another thread, between two writes of this one.
            write(&mut pages, &mut store, memory, 20 + round);
            thread::scope(|scope| drop(scope.spawn(|| write(&mut pages, &mut store, memory, 30 + round))));
            write(&mut pages, &mut store, memory, 40 + round);
            let found = pages.look(memory.data(&store)).unwrap().to_vec();
            assert_eq!(found, private_pages(memory.data(&store)).unwrap());
            // And from another thread alone.
            thread::scope(|scope| drop(scope.spawn(|| write(&mut pages, &mut store, memory, 50 + round))));
            let found = pages.look(memory.data(&store)).unwrap().to_vec();
            assert_eq!(found, private_pages(memory.data(&store)).unwrap());
        }
    }

    #[test]
    fn the_page_map_is_read_only_after_a_fault() {
        let (mut store, memory) = memory();
        let mut pages = PrivatePages::default();
        if pages.look(memory.data(&store)).is_none() || faults().is_none() {
            return;
        }
        write(&mut pages, &mut store, memory, 5);
        let found = pages.look(memory.data(&store)).unwrap().to_vec();
        let len = memory.data_size(&store);
        let elsewhere = vec![0; len + 1];
        let at = usize::from(elsewhere.as_ptr().align_offset(4096) == 0);
        // Of what begins within a page nothing would be told, should it ask. A fault of this thread's own is possible each time, if unlikely.
        let is_known = (0..100).any(|_| {
            pages.look(memory.data(&store)).unwrap();
            write(&mut pages, &mut store, memory, 5);
            pages.look(&elsewhere[at..][..len]).is_some_and(|numbers| numbers == found)
        });
        assert!(is_known);
    }
}
