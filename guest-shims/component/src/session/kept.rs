//! The guest of a session: in the memory of its runtime, or put away as pages.
//!
//! A runtime has one memory for all its guests. A session's guest stays in it for as long as nobody else needs it, so that one who
//! goes on with the same session copies nothing. Whoever needs it has the session put away first: what of the memory differs
//! from the image is copied out. Coming back the memory is made the image again, all of it up to its real end, and the
//! pages are copied in: nothing of one session is ever there for another.

use std::{
    cell::RefCell,
    fmt,
    rc::{Rc, Weak},
};

use glovebox_core::session::{Pages, Reservation};
use glovebox_interpreters::Machine as _;

use super::image::Image;
use crate::{Guest, World, bindings::types::SandboxError};

/// Who is in a runtime's memory, if it is a session's guest.
#[derive(Default)]
pub(crate) struct Residence(RefCell<Weak<RefCell<Kept>>>);

impl fmt::Debug for Residence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_taken = self.0.try_borrow().is_ok_and(|resident| resident.strong_count() > 0);
        f.debug_struct("Residence").field("is_taken", &is_taken).finish()
    }
}

impl Residence {
    /// Has whoever is in the memory put away.
    pub(crate) fn vacate(&self) -> Result<(), SandboxError> {
        let Some(resident) = self.0.take().upgrade() else { return Ok(()) };
        let put_away = resident.try_borrow_mut().map_err(|_| busy()).and_then(|mut kept| kept.put_away());
        if put_away.is_err() {
            self.enter(&resident);
        }
        put_away
    }

    fn enter(&self, kept: &Rc<RefCell<Kept>>) {
        self.0.replace(Rc::downgrade(kept));
    }
}

/// A session's guest between two calls into it.
#[derive(Debug)]
pub(crate) struct Kept {
    guest: Guest,
    image: Image,
    /// Its pages as they were when somebody last looked.
    pages: Pages,
    /// Whether they are so still.
    is_known: bool,
    /// Of a guest that is put away, the size of its memory in pages of WebAssembly.
    away: Option<u32>,
    /// For what its pages take once it is put away.
    reservation: Option<Reservation>,
}

impl Kept {
    /// A guest that is in its memory. `pages`: what its pages may be shared with; `is_known`: they are these.
    pub(super) fn new(world: &World, guest: Guest, pages: Pages, is_known: bool) -> Rc<RefCell<Self>> {
        let image = Image::new(&world.guests, guest.runtime());
        let runtime = Rc::clone(guest.runtime());
        let kept = Rc::new(RefCell::new(Self { guest, image, pages, is_known, away: None, reservation: None }));
        runtime.residence.enter(&kept);
        kept
    }

    /// Its linear memory, in bytes.
    pub(super) fn memory_bytes(&self) -> u64 {
        self.away.map_or_else(|| self.guest.machine.memory().bytes(), |pages| u64::from(pages) << 16)
    }

    /// What the host keeps for it can be looked at and changed wherever it is.
    pub(super) fn guest(&mut self) -> &mut Guest {
        &mut self.guest
    }

    /// The pages of its memory that are its own.
    pub(super) fn pages(&mut self) -> Result<Pages, SandboxError> {
        if !self.is_known {
            self.check_globals()?;
            let count = self.image.count();
            self.pages = Pages::of(&mut self.image, 0..count, std::mem::take(&mut self.pages));
            self.is_known = true;
        }
        Ok(self.pages.clone())
    }

    /// What is held for its pages and for no checkpoint, in bytes.
    pub(super) fn own_bytes(&self) -> u64 {
        self.pages.unshared_bytes()
    }

    /// Its session has been measured. What putting it away takes comes on top.
    pub(super) fn reserve_from(&mut self, reservation: Reservation) {
        self.reservation = Some(reservation);
    }

    /// A resting guest has the image's globals.
    fn check_globals(&self) -> Result<(), SandboxError> {
        let (runtime, memory) = (self.guest.runtime(), self.guest.machine.memory());
        let changed = (0..)
            .zip(&runtime.globals)
            .find(|(number, global)| memory.guests().global_get(runtime.number, *number) != global.value);
        match changed {
            None => Ok(()),
            Some((_, global)) => {
                let text = format!("the guest could not be kept: it left its global `{}` changed", global.export);
                Err(SandboxError::Unavailable(text))
            }
        }
    }

    fn put_away(&mut self) -> Result<(), SandboxError> {
        if self.away.is_none() {
            let known_bytes = self.own_bytes();
            self.pages()?;
            if let Some(reservation) = &mut self.reservation {
                reservation.add(self.pages.unshared_bytes().saturating_sub(known_bytes));
            }
            self.away = Some(self.guest.machine.memory().pages());
        }
        Ok(())
    }

    /// Brings it into its memory, for a call that may change it. `keep`: what its pages were is worth keeping, because a
    /// checkpoint has them as well.
    pub(super) fn come_in(kept: &Rc<RefCell<Self>>, keep: bool) -> Result<(), SandboxError> {
        let runtime = Rc::clone(kept.try_borrow().map_err(|_| busy())?.guest.runtime());
        let is_away = kept.try_borrow().map_err(|_| busy())?.away.is_some();
        if is_away {
            runtime.residence.vacate()?;
        }
        let mut held = kept.try_borrow_mut().map_err(|_| busy())?;
        if let Some(pages) = held.away {
            let memory = held.guest.machine.memory();
            memory.reset(runtime.memory_pages, &runtime.image);
            if !memory.grow(pages.saturating_sub(runtime.memory_pages)) {
                return Err(no_memory(u64::from(pages) << 16));
            }
            let Self { guest, pages, away, .. } = &mut *held;
            write(guest, pages)?;
            guest.reset_globals();
            *away = None;
            runtime.residence.enter(kept);
        }
        held.is_known = false;
        if !keep {
            held.pages = Pages::default();
        }
        Ok(())
    }
}

/// Makes a guest's memory larger, by bytes that are whole pages of WebAssembly, whatever is kept free of it.
pub(super) fn grow(guest: &mut Guest, bytes: u64) -> Result<(), SandboxError> {
    let pages = u32::try_from(bytes >> 16).map_err(|_| no_memory(bytes))?;
    // Files may have taken what is kept free of memory. A guest that could not come back for it would have ruined its session.
    let kept_free = guest.machine.state.limiter.free_all();
    let grown = guest.machine.grow(pages);
    guest.machine.state.limiter.keep_free(kept_free);
    grown.map(drop).map_err(|_| no_memory(bytes))
}

/// Copies pages into a guest's memory, which holds the image.
pub(super) fn write(guest: &mut Guest, pages: &Pages) -> Result<(), SandboxError> {
    let memory = guest.machine.memory();
    for (number, page) in pages.iter() {
        let at = number.checked_mul(4096);
        at.and_then(|at| memory.write(at, &**page).ok()).ok_or_else(|| {
            SandboxError::Unavailable("the saved session does not fit its image: it has pages beyond its end".into())
        })?;
    }
    Ok(())
}

fn no_memory(bytes: u64) -> SandboxError {
    SandboxError::Unavailable(format!(
        "the session's {bytes} bytes of memory are not to be had within `limits.memory-bytes`"
    ))
}

pub(super) fn busy() -> SandboxError {
    SandboxError::Unavailable("a guest of this runtime is running".into())
}
