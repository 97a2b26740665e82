//! What is kept for a guest beside its memory.

use glovebox_core::{MemoryLimit, MemoryLimiter};
use glovebox_wasi::{Stop, Wasi};

use crate::{
    GuestMemory, Run,
    memory::{MAX_PAGES, PAGE_BYTES},
    wasi_host::CallHost,
};

/// Everything of a guest that is not in its memory and its globals.
#[derive(Debug, Default)]
pub struct State {
    /// Its descriptors, files, streams, clocks, random numbers.
    pub wasi: Wasi,
    /// What it may hold.
    pub limiter: MemoryLimiter,
    /// The current execution.
    pub run: Run,
    /// The fuel that is left beside what the guest's code is handed in its counter.
    reserve_fuel: u64,
    /// Why the guest is being unwound.
    pub stop: Option<Stop>,
}

impl State {
    /// For a guest that is asleep, with a memory of this size.
    #[must_use]
    pub fn new(wasi: Wasi, limit: MemoryLimit, run: Run) -> Self {
        let limiter = MemoryLimiter::new(limit, wasi.host_bytes());
        Self { wasi, limiter, run, ..Self::default() }
    }

    /// The fuel that is left.
    #[must_use]
    pub fn fuel(&self, memory: &GuestMemory) -> u64 {
        // What was charged beyond the counter's end is on the reserve.
        self.reserve_fuel.saturating_add_signed(memory.guests().fuel())
    }

    /// Sets the fuel that is left. The guest is handed a slice of it.
    pub fn set_fuel(&mut self, memory: &GuestMemory, left: u64) {
        self.hand_out(memory, self.run.slice(left), left);
    }

    /// Takes what a call cost from the slice that the guest has in hand. It is handed no new one: who makes a call now and then would
    /// never come to the end of any, where somebody looks at the clock.
    fn charge(&mut self, memory: &GuestMemory, fuel: u64) {
        let left = self.fuel(memory).saturating_sub(fuel);
        let in_hand = u64::try_from(memory.guests().fuel()).unwrap_or(0);
        self.hand_out(memory, in_hand.saturating_sub(fuel).min(left), left);
    }

    fn hand_out(&mut self, memory: &GuestMemory, slice: u64, left: u64) {
        self.reserve_fuel = left - slice;
        memory.guests().set_fuel(i64::try_from(slice).unwrap_or(i64::MAX));
    }

    /// The counter is at its end: hands out the next slice.
    pub fn refuel(&mut self, memory: &mut GuestMemory) -> Result<(), Stop> {
        let left = self.fuel(memory);
        // As Wasmtime's own rule has it: the fuel is out when what was charged reaches the budget.
        if left == 0 {
            return Err(Stop::OutOfFuel);
        }
        self.run.look(left, memory)?;
        self.set_fuel(memory, left);
        Ok(())
    }

    /// Grows the guest's memory by so many pages, if that is within the limits; its old size in pages.
    pub fn grow(&mut self, memory: &GuestMemory, pages: u32) -> Option<u32> {
        let old = memory.pages();
        if pages == 0 {
            return Some(old);
        }
        let desired_bytes = u64::from(old).saturating_add(u64::from(pages)) * PAGE_BYTES;
        let max_bytes = u64::from(MAX_PAGES) * PAGE_BYTES;
        (self.limiter.grow(memory.bytes(), desired_bytes, Some(max_bytes)) && memory.grow(pages)).then_some(old)
    }

    /// Does something with the WASI state, the guest's memory and the world; what that charges is taken from the fuel.
    pub fn with_wasi<R>(
        &mut self,
        memory: &mut GuestMemory,
        work: impl FnOnce(&mut Wasi, &mut CallHost<'_>) -> R,
    ) -> R {
        let fuel_left = self.fuel(memory);
        let Self { wasi, limiter, run, .. } = self;
        // The tools' share is taken like linear memory: what is left is for files and output.
        wasi.set_linear_memory_bytes(limiter.taken_bytes());
        let mut host = CallHost::new(memory, run, fuel_left);
        let result = work(wasi, &mut host);
        let charged = fuel_left - host.fuel_left();
        limiter.set_host_bytes(wasi.host_bytes());
        // A reply that was delivered has passed from the tools to the WASI state; now that there is less room for others, they
        // let go of it.
        run.settle();
        limiter.see_peak();
        if charged > 0 {
            self.charge(memory, charged);
        }
        result
    }
}
