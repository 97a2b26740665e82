//! The running guest, through which its calls out of the woven module find its state.
//!
//! A call into a guest calls back into this code: for WASI calls, at an empty fuel counter, and to grow memory. During
//! the call, the guest's [`State`] is stored here. The caller gets it back afterwards, even if the guest was unwound:
//! the exception is thrown after these functions have returned, so none of them is ever unwound itself.

use std::cell::RefCell;

use glovebox_core::CallHost;
use glovebox_wasi::{Stop, Wasi};

use crate::{ComponentPlatform, GuestMemory, State};

/// The value returned to the guest's code to unwind the guest.
pub const UNWIND: i32 = -1;

struct Entered {
    memory: GuestMemory,
    state: Box<State>,
}

thread_local! {
    static ENTERED: RefCell<Option<Entered>> = const { RefCell::new(None) };
}

/// Runs a call into the guest, with `state` stored here during the call.
pub(crate) fn during<R>(memory: &GuestMemory, state: &mut Box<State>, call: impl FnOnce() -> R) -> R {
    let entered = Entered { memory: memory.clone(), state: std::mem::take(state) };
    ENTERED.set(Some(entered));
    let result = call();
    if let Some(entered) = ENTERED.take() {
        *state = entered.state;
    }
    result
}

/// Runs `work` with the running guest. Returns `None` if no guest runs or its state is borrowed; neither can happen.
fn with_entered<R>(work: impl FnOnce(&mut GuestMemory, &mut State) -> R) -> Option<R> {
    ENTERED.with(|entered| {
        let mut entered = entered.try_borrow_mut().ok()?;
        let Entered { memory, state } = entered.as_mut()?;
        Some(work(memory, state))
    })
}

/// Runs one WASI call. Returns the errno, or [`UNWIND`].
pub fn wasi<R: Into<u32>>(
    run: impl FnOnce(&mut Wasi, &mut CallHost<'_, GuestMemory, ComponentPlatform>) -> Result<R, Stop>,
) -> i32 {
    let answer = with_entered(|memory, state| match state.with_wasi(memory, run) {
        Ok(errno) => i32::try_from(errno.into()).unwrap_or(UNWIND),
        Err(stop) => {
            state.stop = Some(stop);
            UNWIND
        }
    });
    answer.unwrap_or(UNWIND)
}

/// Handles an empty fuel counter. Returns 0 to continue with the new value, or 1 to unwind.
#[must_use]
pub fn refuel() -> i32 {
    let answer = with_entered(|memory, state| match state.refuel(memory) {
        Ok(()) => 0,
        Err(stop) => {
            state.stop = Some(stop);
            1
        }
    });
    answer.unwrap_or(1)
}

/// Grows the guest's memory by `pages`. Returns the old size in pages, or -1.
#[must_use]
pub fn grow(pages: u32) -> i32 {
    let old = with_entered(|memory, state| state.grow(memory, pages)).flatten();
    old.and_then(|old| i32::try_from(old).ok()).unwrap_or(-1)
}
