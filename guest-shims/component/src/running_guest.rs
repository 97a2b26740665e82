//! A guest's state in the host, and access to the running guest for calls from its code.
//!
//! While a guest runs, its code calls back into this module: to make WASI calls, to refill an empty fuel counter, and
//! to grow memory. During a call into the guest, the guest's [`HostState`] is stored here. Afterwards, the state
//! returns to the caller, even if the guest was unwound. The unwinding exception is thrown only after these functions
//! have returned.

use std::cell::RefCell;

use glovebox_core::{CallHost, GuestHost, MemoryLimit};
use glovebox_wasi::{Stop, Wasi};

use crate::{
    ComponentPlatform, ExecutionCtx, GuestMemory,
    machine::{MAX_PAGES, PAGE_BYTES},
    platform::slice,
};

/// The value that a host function returns to make the guest's instrumented code unwind its stack.
pub const UNWIND: i32 = -1;

struct RunningGuest {
    memory: GuestMemory,
    state: Box<HostState>,
}

thread_local! {
    static RUNNING_GUEST: RefCell<Option<RunningGuest>> = const { RefCell::new(None) };
}

/// Calls into the guest with `call`. During the call, `state` is in `RUNNING_GUEST`, where the guest's own calls find
/// it.
pub(crate) fn enter<R>(memory: &GuestMemory, state: &mut Box<HostState>, call: impl FnOnce() -> R) -> R {
    let guest = RunningGuest { memory: memory.clone(), state: std::mem::take(state) };
    RUNNING_GUEST.set(Some(guest));
    let result = call();
    if let Some(guest) = RUNNING_GUEST.take() {
        *state = guest.state;
    }
    result
}

/// Runs `work` with the running guest. Returns `None` if no guest is running or its state is borrowed, which cannot
/// happen while guest code calls the host.
fn with_running_guest<R>(work: impl FnOnce(&mut GuestMemory, &mut HostState) -> R) -> Option<R> {
    RUNNING_GUEST.with(|guest| {
        let mut guest = guest.try_borrow_mut().ok()?;
        let RunningGuest { memory, state } = guest.as_mut()?;
        Some(work(memory, state))
    })
}

/// Runs a WASI call. Returns the errno, or [`UNWIND`].
pub fn wasi<R: Into<u32>>(
    run: impl FnOnce(&mut Wasi, &mut CallHost<'_, GuestMemory, ComponentPlatform>) -> Result<R, Stop>,
) -> i32 {
    let answer = with_running_guest(|memory, state| match state.with_wasi(memory, run) {
        Ok(errno) => i32::try_from(errno.into()).unwrap_or(UNWIND),
        Err(stop) => {
            state.stop = Some(stop);
            UNWIND
        }
    });
    answer.unwrap_or(UNWIND)
}

/// Handles an empty fuel counter. Returns 0 if the counter was refilled, or 1 to unwind the guest.
#[must_use]
pub fn refuel() -> i32 {
    let answer = with_running_guest(|memory, state| match state.refuel(memory) {
        Ok(()) => 0,
        Err(stop) => {
            state.stop = Some(stop);
            1
        }
    });
    answer.unwrap_or(1)
}

/// Grows the guest's memory by `pages`. Returns the old size in pages, or -1 if the memory cannot grow.
#[must_use]
pub fn grow(pages: u32) -> i32 {
    let old = with_running_guest(|memory, state| state.grow(memory, pages)).flatten();
    old.and_then(|old| i32::try_from(old).ok()).unwrap_or(-1)
}

/// A guest's state outside its memory and globals.
#[derive(Debug)]
pub struct HostState {
    /// The state that all backends share.
    pub host: GuestHost<ComponentPlatform>,
    /// The remaining fuel outside the guest's counter.
    reserve_fuel: u64,
    /// The reason to unwind the guest; `None` while it may run.
    pub stop: Option<Stop>,
}

impl Default for HostState {
    /// Returns a placeholder for use while a guest's state is stored elsewhere.
    fn default() -> Self {
        Self::new(Wasi::default(), MemoryLimit::default(), ExecutionCtx::default())
    }
}

impl HostState {
    /// Creates the state of a guest without memory.
    #[must_use]
    pub fn new(wasi: Wasi, limit: MemoryLimit, ctx: ExecutionCtx) -> Self {
        Self { host: GuestHost::new(Box::new(wasi), limit, ctx), reserve_fuel: 0, stop: None }
    }

    /// Returns the remaining fuel.
    #[must_use]
    pub fn fuel(&self, memory: &GuestMemory) -> u64 {
        // A negative counter is subtracted from the reserve.
        self.reserve_fuel.saturating_add_signed(memory.guests().fuel())
    }

    /// Sets the remaining fuel and gives the guest its next slice.
    pub fn set_fuel(&mut self, memory: &GuestMemory, left: u64) {
        self.hand_out(memory, slice(&self.host.ctx, left), left);
    }

    /// Charges a call's fuel to the guest's current slice, without starting a new slice. Otherwise, frequent calls
    /// would keep the guest from reaching the end of a slice, where the clock is checked.
    fn charge(&mut self, memory: &GuestMemory, fuel: u64) {
        let left = self.fuel(memory).saturating_sub(fuel);
        let in_hand = u64::try_from(memory.guests().fuel()).unwrap_or(0);
        self.hand_out(memory, in_hand.saturating_sub(fuel).min(left), left);
    }

    fn hand_out(&mut self, memory: &GuestMemory, slice: u64, left: u64) {
        self.reserve_fuel = left - slice;
        memory.guests().set_fuel(i64::try_from(slice).unwrap_or(i64::MAX));
    }

    /// Gives the guest its next slice of fuel. Fails if the fuel is exhausted or the guest must stop.
    pub fn refuel(&mut self, memory: &mut GuestMemory) -> Result<(), Stop> {
        let left = self.fuel(memory);
        // As in Wasmtime, the fuel is exhausted when a charge uses all of it.
        if left == 0 {
            return Err(Stop::OutOfFuel);
        }
        self.host.ctx.platform.pause();
        self.host.ctx.check_stop(left, memory)?;
        self.set_fuel(memory, left);
        Ok(())
    }

    /// Grows the guest's memory by `pages`, within the limits. Returns the old size in pages; `None` if the memory
    /// cannot grow.
    pub fn grow(&mut self, memory: &GuestMemory, pages: u32) -> Option<u32> {
        let old = memory.pages();
        if pages == 0 {
            return Some(old);
        }
        let desired_bytes = u64::from(old).saturating_add(u64::from(pages)) * PAGE_BYTES;
        let max_bytes = u64::from(MAX_PAGES) * PAGE_BYTES;
        (self.host.limiter.grow(memory.bytes(), desired_bytes, Some(max_bytes)) && memory.grow(pages)).then_some(old)
    }

    /// Runs `work` with the WASI state and a host that accesses the guest's memory. Fuel that `work` charges to the
    /// host is deducted from the guest's fuel.
    pub fn with_wasi<R>(
        &mut self,
        memory: &mut GuestMemory,
        work: impl FnOnce(&mut Wasi, &mut CallHost<'_, GuestMemory, ComponentPlatform>) -> R,
    ) -> R {
        let fuel_left = self.fuel(memory);
        let (result, left) = self.host.call(memory, fuel_left, work);
        if left < fuel_left {
            self.charge(memory, fuel_left - left);
        }
        result
    }
}
