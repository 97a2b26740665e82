//! The memory of a session's guest: in the memory of its runtime, or evicted and stored as pages.
//!
//! A runtime has one memory for all its guests. A session's guest stays in it for as long as no other guest needs it, so that a
//! caller that continues with the same session copies nothing. Another guest evicts the session first: the pages that differ
//! from the image are copied out. When the session returns, the memory is reset to the image up to its real end, and the
//! pages are copied in. So one session never sees bytes of another.

use std::{cell::RefCell, rc::Rc};

use glovebox_core::session::{Pages, Reservation};

use super::image::Image;
use crate::{
    GuestMemory, Runtime,
    bindings::types::SandboxError,
    residence::{Resident, busy},
};

/// The memory of a session's guest, which the guest and its runtime's [`Residence`](crate::residence::Residence) share.
#[derive(Clone, Debug)]
pub(crate) struct ResidentMemory(Rc<RefCell<SessionMemory>>);

#[derive(Debug)]
struct SessionMemory {
    image: Image,
    /// Its pages as of the last comparison.
    pages: Pages,
    /// Whether they are still the same.
    is_known: bool,
    /// While it is evicted: the size of its memory in pages of WebAssembly.
    evicted: Option<u32>,
    /// Pays for its pages once it is evicted.
    reservation: Option<Reservation>,
}

impl ResidentMemory {
    /// Of a guest that is in its memory. `pages`: what its pages may be shared with; `is_known`: they are exactly these.
    pub(crate) fn new(memory: &GuestMemory, runtime: &Rc<Runtime>, pages: Pages, is_known: bool) -> Self {
        let image = Image::new(memory.clone(), runtime);
        let resident = SessionMemory { image, pages, is_known, evicted: None, reservation: None };
        let resident = Rc::new(RefCell::new(resident));
        runtime.residence.enter(&resident);
        Self(resident)
    }

    /// Its size in bytes; 0 while it is borrowed.
    pub(crate) fn bytes(&self) -> u64 {
        self.0.try_borrow().map_or(0, |resident| resident.bytes())
    }

    /// The pages that are its own.
    pub(super) fn pages(&self) -> Result<Pages, SandboxError> {
        self.0.try_borrow_mut().map_err(|_| busy())?.pages().cloned()
    }

    /// What is held for its pages and for no checkpoint, in bytes.
    pub(super) fn own_bytes(&self) -> u64 {
        self.0.try_borrow().map_or(0, |resident| resident.pages.unshared_bytes())
    }

    /// Stores the reservation that evicting adds to.
    pub(super) fn reserve_from(&self, reservation: Reservation) {
        if let Ok(mut resident) = self.0.try_borrow_mut() {
            resident.reservation = Some(reservation);
        }
    }

    /// Brings it into its runtime's memory, for a call that may change it. `keep_pages`: its pages are worth holding, because
    /// a checkpoint shares them.
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

    /// An idle guest has the image's globals.
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
        "the session's {bytes} bytes of memory are not to be had within `limits.memory-bytes`"
    ))
}
