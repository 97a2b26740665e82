//! The waker of the execution that waits.
//!
//! A guest's stack cannot be suspended, so its execution blocks while it waits. Only one execution runs at a time.

use std::{cell::RefCell, task::Waker};

thread_local! {
    static WAKER: RefCell<Waker> = RefCell::new(Waker::noop().clone());
}

/// Returns the waker of the execution that waits. Without one, the waker does nothing.
pub(crate) fn waker() -> Waker {
    WAKER.with_borrow(Waker::clone)
}

/// Sets the waker of the execution that waits.
#[cfg(all(target_family = "wasm", feature = "concurrent", feature = "clock"))]
pub(crate) fn set_waker(waker: &Waker) {
    WAKER.with_borrow_mut(|current| current.clone_from(waker));
}

/// Wakes the execution that waits, if there is one.
pub(crate) fn wake() {
    // Wakes a clone, because waking can reach this module again.
    waker().wake();
}
