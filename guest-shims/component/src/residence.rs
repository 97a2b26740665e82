//! The occupant of a runtime's memory.

use std::{
    cell::RefCell,
    fmt,
    rc::{Rc, Weak},
};

use crate::bindings::types::SandboxError;

/// A session's guest, which can be evicted from its runtime's memory.
pub(crate) trait Resident {
    /// Copies the guest's pages out, so that another guest can use the memory.
    fn evict(&mut self) -> Result<(), SandboxError>;
}

/// The session's guest in a runtime's memory, if there is one.
#[derive(Default)]
pub(crate) struct Residence(RefCell<Option<Weak<RefCell<dyn Resident>>>>);

impl fmt::Debug for Residence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let resident = self.0.try_borrow();
        let is_taken = resident.is_ok_and(|resident| resident.as_ref().is_some_and(|weak| weak.strong_count() > 0));
        f.debug_struct("Residence").field("is_taken", &is_taken).finish()
    }
}

impl Residence {
    /// Evicts the guest in the memory.
    pub(crate) fn vacate(&self) -> Result<(), SandboxError> {
        let Some(resident) = self.0.take().and_then(|resident| resident.upgrade()) else { return Ok(()) };
        let evicted = resident.try_borrow_mut().map_err(|_| busy()).and_then(|mut resident| resident.evict());
        if evicted.is_err() {
            self.0.replace(Some(Rc::downgrade(&resident)));
        }
        evicted
    }

    /// Records the guest that now occupies the memory.
    pub(crate) fn enter<R: Resident + 'static>(&self, resident: &Rc<RefCell<R>>) {
        let resident: Weak<RefCell<R>> = Rc::downgrade(resident);
        self.0.replace(Some(resident));
    }
}

/// Returns the error for a guest in the middle of a call.
pub(crate) fn busy() -> SandboxError {
    SandboxError::Unavailable("a guest of this runtime is running".into())
}
