//! A session's platform, and its guest's memory, which is either in use by the runtime or evicted and stored as pages.
//!
//! A runtime has one memory for all its guests. A session's guest stays there until another guest needs the memory, so
//! consecutive calls to the same session copy nothing. To make room for another guest, the session is evicted: the
//! pages that differ from the image are copied out. When the session returns, the whole memory, including memory that
//! earlier guests added, is reset to the image, and the stored pages are copied back. A session therefore never sees
//! another session's bytes.

use std::{
    cell::RefCell,
    rc::{Rc, Weak},
    sync::Arc,
};

use glovebox_core::{
    Clock, Refusal,
    files::{FileError, change},
    session::{
        Checkpoint, GuestPages, LedgerEntry, Memory, PAGE_BYTES, Page, PageChange, Pages, Reservation, SessionBackend,
        SessionCall, SessionError, SessionFailure, SessionSetup,
    },
};
use glovebox_vfs::{RootId, Vfs, VfsError};
use glovebox_wasi::Wasi;

use crate::{
    ExecutionCtx, Guest, GuestMachine, GuestMemory, ImageRun, Runtime, Sandbox, bindings::types::SandboxError,
    runtime::busy, sandbox::refused_variable,
};

/// The memory of a session's guest, shared by the guest and its runtime's [`Residence`].
#[derive(Clone, Debug)]
pub(crate) struct ResidentMemory(Rc<RefCell<SessionMemory>>);

#[derive(Debug)]
struct SessionMemory {
    image: Image,
    /// The private pages as of the last comparison.
    pages: Pages,
    /// `true` if the memory has not changed since the last comparison.
    is_known: bool,
    /// The size of an evicted memory, in 64 KiB pages; `None` while the guest is in the runtime's memory.
    evicted: Option<u32>,
    /// The reservation that an eviction charges for the copied pages.
    reservation: Option<Reservation>,
}

impl ResidentMemory {
    /// Wraps the memory of a guest that is in its runtime's memory. A saved guest page that equals a page in `pages`
    /// shares that page's storage. `is_known` is `true` if `pages` contains exactly the guest's private pages.
    pub(crate) fn new(memory: &GuestMemory, runtime: &Rc<Runtime>, pages: Pages, is_known: bool) -> Self {
        let image = Image::new(memory.clone(), runtime);
        let resident = SessionMemory { image, pages, is_known, evicted: None, reservation: None };
        let resident = Rc::new(RefCell::new(resident));
        runtime.residence.enter(&resident);
        Self(resident)
    }

    /// Returns the memory's size in bytes; 0 while it is borrowed.
    pub(crate) fn bytes(&self) -> u64 {
        self.0.try_borrow().map_or(0, |resident| resident.bytes())
    }

    /// Returns the pages that differ from the image.
    pub(super) fn pages(&self) -> Result<Pages, SandboxError> {
        self.0.try_borrow_mut().map_err(|_| busy())?.pages().cloned()
    }

    /// Returns the size of the private pages that no checkpoint shares, in bytes.
    pub(super) fn own_bytes(&self) -> u64 {
        self.0.try_borrow().map_or(0, |resident| resident.pages.unshared_bytes())
    }

    /// Sets the reservation that an eviction charges.
    pub(super) fn reserve_from(&self, reservation: Reservation) {
        if let Ok(mut resident) = self.0.try_borrow_mut() {
            resident.reservation = Some(reservation);
        }
    }

    /// Moves the guest into its runtime's memory for a call that may change it. `keep_pages` is `true` if the guest's
    /// stored pages must remain, because a checkpoint may share them.
    pub(super) fn enter(&self, keep_pages: bool) -> Result<(), SandboxError> {
        let (runtime, is_evicted) = {
            let resident = self.0.try_borrow().map_err(|_| busy())?;
            (Rc::clone(resident.image.runtime()), resident.evicted.is_some())
        };
        if is_evicted {
            runtime.residence.evict()?;
        }
        let mut resident = self.0.try_borrow_mut().map_err(|_| busy())?;
        if let Some(pages) = resident.evicted {
            let memory = resident.image.memory();
            memory.reset(runtime.memory_pages, &runtime.image);
            if !memory.grow(pages.saturating_sub(runtime.memory_pages)) {
                return Err(no_memory(u64::from(pages) << 16));
            }
            if !resident.pages.write_with(|at, page| memory.write(at, page).is_ok()) {
                return Err(SandboxError::Unavailable("the session has pages beyond the end of its memory".into()));
            }
            runtime.reset_globals(memory.guests());
            resident.evicted = None;
            runtime.residence.enter(&self.0);
        }
        resident.is_known = false;
        if !keep_pages {
            resident.pages = Pages::default();
        }
        Ok(())
    }
}

impl SessionMemory {
    fn bytes(&self) -> u64 {
        self.evicted.map_or_else(|| self.image.memory().bytes(), |pages| u64::from(pages) << 16)
    }

    fn pages(&mut self) -> Result<&Pages, SandboxError> {
        if !self.is_known {
            self.check_globals()?;
            let count = self.image.count();
            self.pages = Pages::of(&mut self.image, 0..count, std::mem::take(&mut self.pages));
            self.is_known = true;
        }
        Ok(&self.pages)
    }

    /// Copies the guest's pages out, so that another guest can use the memory.
    fn evict(&mut self) -> Result<(), SandboxError> {
        if self.evicted.is_none() {
            let known_bytes = self.pages.unshared_bytes();
            let bytes = self.pages()?.unshared_bytes();
            if let Some(reservation) = &mut self.reservation {
                reservation.add(bytes.saturating_sub(known_bytes));
            }
            self.evicted = Some(self.image.memory().pages());
        }
        Ok(())
    }

    /// Checks that the globals of an idle guest have the image's values.
    fn check_globals(&self) -> Result<(), SandboxError> {
        let (runtime, memory) = (self.image.runtime(), self.image.memory());
        let changed = (0..)
            .zip(&runtime.globals)
            .find(|(number, global)| memory.guests().global_get(runtime.number, *number) != global.value);
        match changed {
            None => Ok(()),
            Some((_, global)) => {
                let text = format!(
                    "cannot evict a session's guest: it changed the WebAssembly global `{}`; close that session",
                    global.export
                );
                Err(SandboxError::Unavailable(text))
            }
        }
    }
}

/// A reference to the session whose guest is in a runtime's memory, if any.
#[derive(Debug, Default)]
pub(crate) struct Residence(RefCell<Option<Weak<RefCell<SessionMemory>>>>);

impl Residence {
    /// Evicts the session's guest from the memory, if there is one.
    pub(crate) fn evict(&self) -> Result<(), SandboxError> {
        let Some(resident) = self.0.take().and_then(|resident| resident.upgrade()) else { return Ok(()) };
        let evicted = resident.try_borrow_mut().map_err(|_| busy()).and_then(|mut resident| resident.evict());
        if evicted.is_err() {
            self.enter(&resident);
        }
        evicted
    }

    /// Records the guest that now occupies the memory.
    fn enter(&self, resident: &Rc<RefCell<SessionMemory>>) {
        self.0.replace(Some(Rc::downgrade(resident)));
    }
}

pub(super) fn no_memory(bytes: u64) -> SandboxError {
    SandboxError::Unavailable(format!("the session needs {bytes} bytes of memory; raise `limits.memory-bytes`"))
}

/// A runtime's pristine image, for comparison with a guest's memory.
#[derive(Debug)]
pub(super) struct Image {
    memory: GuestMemory,
    runtime: Rc<Runtime>,
    /// A buffer of one page for comparisons, reused so that it stays in the processor's cache.
    part: Box<Page>,
}

impl Image {
    pub(super) fn new(memory: GuestMemory, runtime: &Rc<Runtime>) -> Self {
        Self { memory, runtime: Rc::clone(runtime), part: Box::new([0; PAGE_BYTES]) }
    }

    pub(super) fn memory(&self) -> &GuestMemory {
        &self.memory
    }

    pub(super) fn runtime(&self) -> &Rc<Runtime> {
        &self.runtime
    }

    /// Returns the runs that overlap the page at address `start`.
    fn runs(&self, start: u64) -> impl Iterator<Item = &ImageRun> {
        self.runtime.image.runs_in(start, start + PAGE_BYTES as u64)
    }

    /// Returns a page of the image; `None` beyond the image's memory.
    pub(super) fn original(&self, number: u32) -> Option<Page> {
        let start = u64::from(number) * PAGE_BYTES as u64;
        let mut page = [0; PAGE_BYTES];
        for run in self.runs(start) {
            let (begin, end) = (u64::from(run.start).max(start), run.end().min(start + PAGE_BYTES as u64));
            let at = |position: u64| usize::try_from(position - start).unwrap_or(PAGE_BYTES);
            let offset = run.offset.checked_add(u32::try_from(begin).ok()? - run.start)?;
            let into = page.get_mut(at(begin)..at(end))?;
            self.memory.guests().image_to_shim(self.runtime.number, offset, into);
        }
        (start < self.runtime.memory_bytes()).then_some(page)
    }

    /// Returns `true` if a range of the guest's memory is zero.
    fn is_zero(&self, from: u64, to: u64) -> bool {
        let (Ok(at), Ok(len)) = (u32::try_from(from), u32::try_from(to.saturating_sub(from))) else { return false };
        len == 0 || self.memory.guests().memory_is_zero(self.runtime.number, at, len)
    }

    /// Returns `true` if a range of the guest's memory equals the image. The range must be within `run` and at most
    /// one page long.
    fn is_same(&mut self, run: &ImageRun, from: u64, to: u64) -> bool {
        let (Ok(at), Ok(len)) = (u32::try_from(from), usize::try_from(to.saturating_sub(from))) else { return false };
        let Some(part) = self.part.get_mut(..len) else { return false };
        let guests = self.memory.guests();
        guests.image_to_shim(self.runtime.number, run.offset.saturating_add(at.saturating_sub(run.start)), part);
        guests.memory_equals(self.runtime.number, at, part)
    }

    /// Returns `true` if the page at address `at` equals the image, or is zero beyond the image.
    fn is_original(&mut self, at: u32) -> bool {
        let start = u64::from(at);
        let (end, runtime, mut at) = (start + PAGE_BYTES as u64, Rc::clone(&self.runtime), start);
        for run in runtime.image.runs_in(start, end) {
            let (from, to) = (u64::from(run.start).max(start), run.end().min(end));
            if !self.is_zero(at, from) || !self.is_same(run, from, to) {
                return false;
            }
            at = to;
        }
        self.is_zero(at, end)
    }

    /// Returns the number of pages in the guest's memory.
    pub(super) fn count(&self) -> u32 {
        u32::try_from(self.memory.bytes() / PAGE_BYTES as u64).unwrap_or(u32::MAX)
    }

    /// Returns the address of a page; `None` beyond the end of the guest's memory.
    fn address(&self, number: u32) -> Option<u32> {
        if number < self.count() { number.checked_mul(u32::try_from(PAGE_BYTES).ok()?) } else { None }
    }
}

impl GuestPages for Image {
    fn compare(&mut self, number: u32, saved: Option<&Page>) -> PageChange {
        let Some(at) = self.address(number) else { return PageChange::Pristine };
        if saved.is_some_and(|page| self.memory.guests().memory_equals(self.runtime.number, at, page)) {
            return PageChange::Unchanged;
        }
        let mut page = [0; PAGE_BYTES];
        if self.is_original(at) || self.memory.read(at, &mut page).is_err() {
            return PageChange::Pristine;
        }
        PageChange::Changed(Arc::new(page))
    }
}

/// The component's state for one session.
#[derive(Debug)]
pub(super) struct ComponentBackend {
    pub(super) sandbox: Sandbox,
    id: Rc<str>,
}

impl ComponentBackend {
    pub(super) fn new(sandbox: Sandbox, id: &Rc<str>) -> Self {
        Self { sandbox, id: Rc::clone(id) }
    }

    /// Returns the guest's wall-clock time, in nanoseconds since 1970.
    fn realtime_ns(&self) -> u64 {
        match (self.sandbox.policy.clock, &self.sandbox.world.clocks) {
            (Clock::Fixed(realtime_ns), _) => realtime_ns,
            (Clock::Host, clocks) => clocks.as_ref().map_or(0, |clocks| clocks.realtime_ns()),
        }
    }
}

/// Atomically changes a session's files from outside the guest.
pub(super) fn change_files(
    call: SessionCall<'_, ComponentBackend>,
    work: impl FnOnce(&mut Vfs, RootId) -> Result<(), FileError>,
) -> Result<(), FileError> {
    let wasi = call.guest.wasi_mut();
    let root = wasi.mount_root(glovebox_core::WORKSPACE);
    let vfs = wasi.vfs_mut();
    vfs.mark();
    vfs.set_now_ns(call.backend.realtime_ns());
    let root = root.ok_or_else(|| FileError::refused("find", ".")(VfsError::BadInode))?;
    change::atomically(vfs, |vfs| work(vfs, root))
}

/// Returns the memory of a session's guest. Every session's guest has one.
fn memory(guest: &Guest) -> Result<&ResidentMemory, SandboxError> {
    let missing = || SandboxError::Unavailable("the session's guest has no memory".into());
    guest.machine.resident.as_ref().ok_or_else(missing)
}

impl SessionBackend for ComponentBackend {
    type Error = SandboxError;
    type Machine = GuestMachine;

    fn setup(&self) -> SessionSetup<'_> {
        let Sandbox { runtime, policy, .. } = &self.sandbox;
        SessionSetup {
            id: &self.id,
            image: runtime.driver(),
            limits: &policy.limits,
            policy: &policy.session,
            image_bytes: runtime.memory_bytes(),
        }
    }

    fn one_shot_ctx(&self) -> ExecutionCtx {
        self.sandbox.one_shot_ctx()
    }

    fn instantiate(&self, _state: &Checkpoint, wasi: Wasi) -> Result<Guest, SandboxError> {
        self.sandbox.instantiate(wasi, self.one_shot_ctx())
    }

    fn memory_of(&mut self, guest: &mut Guest, _earlier: Option<Pages>) -> Result<Memory, SandboxError> {
        Ok(Memory { pages: memory(guest)?.pages()?, globals: self.sandbox.runtime.idle_globals.clone() })
    }

    fn own_bytes(&self, guest: &Guest) -> u64 {
        memory(guest).map_or(0, ResidentMemory::own_bytes)
    }

    fn on_restored(&mut self, guest: &mut Guest, pages: &Pages, is_same: bool) {
        guest.machine.make_resident(pages.clone(), is_same);
    }

    fn prepare_call(&mut self, guest: &mut Guest, keep_pages: bool) -> Result<(), SandboxError> {
        memory(guest)?.enter(keep_pages)
    }

    fn on_accounted(&mut self, guest: &mut Guest, place: &LedgerEntry) {
        if let Ok(memory) = memory(guest) {
            memory.reserve_from(place.reservation(self.setup().limits));
        }
    }

    fn reason(error: &SandboxError) -> String {
        match error {
            SandboxError::Unavailable(text) => text.clone(),
            SandboxError::Variable(text) => format!("variable {text}"),
            error => error.to_string(),
        }
    }
}

impl From<SessionError<'_>> for SandboxError {
    fn from(SessionError { id, failure }: SessionError<'_>) -> Self {
        match failure {
            SessionFailure::Ended(reason) => {
                Self::SessionEnded(format!("session `{id}` has ended: {reason}; open another session"))
            }
            SessionFailure::NoCheckpoint(wanted) => {
                let wanted = wanted.map_or_else(
                    || " to undo to; take one before the change".to_owned(),
                    |id| format!(" with the ID `{}`; use the ID of a retained checkpoint", id.0),
                );
                Self::NoCheckpoint(format!("session `{id}` has no checkpoint{wanted}"))
            }
            SessionFailure::Variable { name, reason } => refused_variable(name, Refusal::Guest(reason)),
            SessionFailure::Mismatch(what) => {
                Self::Unavailable(format!("session `{id}` cannot be restored: {what}; open another session"))
            }
            SessionFailure::NoMemory(bytes) => no_memory(bytes),
        }
    }
}
