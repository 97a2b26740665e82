//! The memory of a session's guest: in its runtime's memory, or evicted and stored as pages.
//!
//! A runtime has one memory for all its guests. A session's guest stays there until another guest needs the memory, so
//! a caller that continues the same session copies nothing. Another guest evicts the session first: the pages that
//! differ from the image are copied out. When the session returns, the memory is reset to the image up to its real end,
//! and the pages are copied in. A session therefore never sees bytes of another session.

use std::{cell::RefCell, rc::Rc};

use glovebox_core::session::{Pages, Reservation};

use super::image::Image;
use crate::{
    GuestMemory, Runtime,
    bindings::types::SandboxError,
    residence::{Resident, busy},
};

/// The memory of a session's guest, shared by the guest and its runtime's [`Residence`](crate::residence::Residence).
#[derive(Clone, Debug)]
pub(crate) struct ResidentMemory(Rc<RefCell<SessionMemory>>);

#[derive(Debug)]
struct SessionMemory {
    image: Image,
    /// The pages as of the last comparison.
    pages: Pages,
    /// `true` while the pages are unchanged since then.
    is_known: bool,
    /// The size of an evicted memory in 64 KiB pages; `None` while it is in the runtime's memory.
    evicted: Option<u32>,
    /// Reserves the bytes of the pages on eviction.
    reservation: Option<Reservation>,
}

impl ResidentMemory {
    /// Creates the memory of a guest that is in its runtime's memory. Equal pages are shared with `pages`; `is_known`
    /// means that the guest's pages are exactly these.
    pub(crate) fn new(memory: &GuestMemory, runtime: &Rc<Runtime>, pages: Pages, is_known: bool) -> Self {
        let image = Image::new(memory.clone(), runtime);
        let resident = SessionMemory { image, pages, is_known, evicted: None, reservation: None };
        let resident = Rc::new(RefCell::new(resident));
        runtime.residence.enter(&resident);
        Self(resident)
    }

    /// Returns the size in bytes; 0 while it is borrowed.
    pub(crate) fn bytes(&self) -> u64 {
        self.0.try_borrow().map_or(0, |resident| resident.bytes())
    }

    /// Returns the private pages.
    pub(super) fn pages(&self) -> Result<Pages, SandboxError> {
        self.0.try_borrow_mut().map_err(|_| busy())?.pages().cloned()
    }

    /// Returns the bytes held for the private pages, apart from checkpoints.
    pub(super) fn own_bytes(&self) -> u64 {
        self.0.try_borrow().map_or(0, |resident| resident.pages.unshared_bytes())
    }

    /// Sets the reservation for the pages of an eviction.
    pub(super) fn reserve_from(&self, reservation: Reservation) {
        if let Ok(mut resident) = self.0.try_borrow_mut() {
            resident.reservation = Some(reservation);
        }
    }

    /// Moves the guest into its runtime's memory, for a call that may change it. `keep_pages` means that a checkpoint
    /// shares the pages, so they are worth keeping.
    pub(super) fn enter(&self, keep_pages: bool) -> Result<(), SandboxError> {
        let (runtime, is_evicted) = {
            let resident = self.0.try_borrow().map_err(|_| busy())?;
            (Rc::clone(resident.image.runtime()), resident.evicted.is_some())
        };
        if is_evicted {
            runtime.residence.vacate()?;
        }
        let mut resident = self.0.try_borrow_mut().map_err(|_| busy())?;
        if let Some(pages) = resident.evicted {
            let memory = resident.image.memory();
            memory.reset(runtime.memory_pages, &runtime.image);
            if !memory.grow(pages.saturating_sub(runtime.memory_pages)) {
                return Err(no_memory(u64::from(pages) << 16));
            }
            if !resident.pages.write_with(|at, page| memory.write(at, page).is_ok()) {
                return Err(SandboxError::Unavailable("the session has pages beyond its memory's end".into()));
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

    /// Checks that the globals of an idle guest have the image's values.
    fn check_globals(&self) -> Result<(), SandboxError> {
        let (runtime, memory) = (self.image.runtime(), self.image.memory());
        let changed = (0..)
            .zip(&runtime.globals)
            .find(|(number, global)| memory.guests().global_get(runtime.number, *number) != global.value);
        match changed {
            None => Ok(()),
            Some((_, global)) => {
                let text = format!("the guest could not be suspended: it left its global `{}` changed", global.export);
                Err(SandboxError::Unavailable(text))
            }
        }
    }
}

impl Resident for SessionMemory {
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
}

pub(super) fn no_memory(bytes: u64) -> SandboxError {
    SandboxError::Unavailable(format!(
        "the session needs {bytes} bytes of memory, more than `limits.memory-bytes` leaves; raise it"
    ))
}
