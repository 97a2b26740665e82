//! The host's state for a guest, and the interfaces to the guest's memory and the platform's clock.

use std::{ops::Range, time::Duration};

use glovebox_wasi::{Fault, Host, Stop, Stream, Wasi};

use crate::{
    ExecutionCtx, MemoryLimit, MemoryLimiter, Platform, TrapKind,
    tools::{CALL_FUEL, ToolRunner as _, message_fuel},
};

/// Fuel charged between two deadline checks within one call, about a fifth of a millisecond of host work. Only calls
/// that move megabytes reach this amount.
const FUEL_BETWEEN_LOOKS: u64 = 1 << 20;

/// The host's state for a guest, without the guest's instance.
#[derive(Debug)]
pub struct GuestHost<P: Platform> {
    /// The WASI state: descriptors, files, streams, clocks and random numbers.
    pub wasi: Box<Wasi>,
    /// The guest's memory limit and its current usage.
    pub limiter: MemoryLimiter,
    /// The context of the current execution.
    pub ctx: ExecutionCtx<P>,
    /// The trap that ended the last call into the guest, if any.
    pub trapped: Option<TrapKind>,
}

impl<P: Platform> GuestHost<P> {
    /// Creates the state of a guest that has no memory yet.
    pub fn new(wasi: Box<Wasi>, limit: MemoryLimit, ctx: ExecutionCtx<P>) -> Self {
        let limiter = MemoryLimiter::new(limit, wasi.host_bytes());
        Self { wasi, limiter, ctx, trapped: None }
    }

    /// Calls `work` with the WASI state, and with a host for the guest's memory and fuel. Also returns the remaining
    /// fuel.
    pub fn call<M: LinearMemory + ?Sized, R>(
        &mut self,
        memory: &mut M,
        fuel_left: u64,
        work: impl FnOnce(&mut Wasi, &mut CallHost<'_, M, P>) -> R,
    ) -> (R, u64) {
        let Self { wasi, limiter, ctx, .. } = self;
        // Memory that the tools use counts like linear memory. Files and output share the remaining memory limit.
        wasi.set_linear_memory_bytes(limiter.taken_bytes());
        let mut host = CallHost { memory, ctx, fuel_left, unchecked: 0 };
        let result = work(wasi, &mut host);
        let fuel_left = host.fuel_left;
        limiter.set_host_bytes(wasi.host_bytes());
        // A delivered reply has moved to the WASI state, so the tools stop counting its bytes.
        ctx.settle();
        limiter.see_peak();
        if ctx.take_continued() {
            self.forget_events();
        }
        (result, fuel_left)
    }

    /// Drops the guest's security events. The suspended execution has already reported them.
    pub(crate) fn forget_events(&mut self) {
        drop(self.wasi.take_events());
        self.limiter.mark_reported();
    }

    /// Returns the WASI state to save. Its monotonic clock includes the instance's age.
    pub(crate) fn settled_wasi(&mut self) -> Wasi {
        let mut wasi = (*self.wasi).clone();
        let memory: &mut [u8] = &mut [];
        wasi.settle_clock(&mut CallHost { memory, ctx: &mut self.ctx, fuel_left: u64::MAX, unchecked: 0 });
        wasi
    }
}

/// The host's state and the guest's memory, as borrowed by one WASI call.
pub struct CallHost<'a, M: ?Sized, P: Platform> {
    memory: &'a mut M,
    ctx: &'a mut ExecutionCtx<P>,
    fuel_left: u64,
    /// Fuel charged since the last deadline check.
    unchecked: u64,
}

impl<M: LinearMemory + ?Sized, P: Platform> Host for CallHost<'_, M, P> {
    fn memory_len(&self) -> u64 {
        self.memory.bytes()
    }

    fn read(&mut self, at: u32, into: &mut [u8]) -> Result<(), Fault> {
        self.memory.read(at, into)
    }

    fn write(&mut self, at: u32, from: &[u8]) -> Result<(), Fault> {
        self.memory.write(at, from)
    }

    fn charge(&mut self, fuel: u64) -> Result<(), Stop> {
        // As in Wasmtime, the fuel is exhausted when a charge uses all of it.
        self.fuel_left = self.fuel_left.saturating_sub(fuel);
        if self.fuel_left == 0 {
            return Err(Stop::OutOfFuel);
        }
        // Guest code checks the clock between host calls, but a single host call can fill or copy gigabytes.
        self.unchecked = self.unchecked.saturating_add(fuel);
        if self.unchecked < FUEL_BETWEEN_LOOKS {
            return Ok(());
        }
        self.unchecked = 0;
        self.ctx.check_stop(self.fuel_left, self.memory)
    }

    fn realtime_ns(&mut self) -> u64 {
        self.ctx.realtime_ns()
    }

    fn monotonic_ns(&mut self) -> u64 {
        self.ctx.monotonic_ns()
    }

    fn sleep_ns(&mut self, duration: u64) -> Result<(), Stop> {
        self.ctx.guest_sleep(Duration::from_nanos(duration), self.fuel_left, self.memory)
    }

    fn fill_random(&mut self, into: &mut [u8]) {
        self.ctx.fill_random(into);
    }

    fn output(&mut self, stream: Stream, bytes: &[u8]) {
        self.ctx.output(stream, bytes);
    }

    fn display(&mut self, message: &[u8]) {
        self.ctx.platform.display(message);
    }

    fn stdin(&mut self) -> Result<Option<Vec<u8>>, Stop> {
        self.ctx.stdin(self.fuel_left, self.memory)
    }

    fn tool_send(&mut self, message: &[u8]) -> Result<(), Stop> {
        self.charge(message_fuel(message.len()))?;
        if self.ctx.send(message) {
            self.charge(CALL_FUEL)?;
            if P::Tools::RUN_INLINE {
                // The tool may have run for a long time.
                self.ctx.check_stop(self.fuel_left, self.memory)?;
            }
        }
        Ok(())
    }

    fn tool_receive(&mut self) -> Result<Option<Vec<u8>>, Stop> {
        Ok(self.ctx.receive(self.fuel_left, self.memory)?.map(String::into_bytes))
    }
}

/// A guest's linear memory. Every access is bounds-checked.
pub trait LinearMemory {
    /// Returns the size of the memory, in bytes.
    fn bytes(&self) -> u64;

    /// Reads `into.len()` bytes at `at`.
    fn read(&self, at: u32, into: &mut [u8]) -> Result<(), Fault>;

    /// Writes all of `from` at `at`.
    fn write(&mut self, at: u32, from: &[u8]) -> Result<(), Fault>;

    /// Returns the 32-bit little-endian word at `at`; `None` outside the memory.
    fn word(&self, at: u32) -> Option<u32> {
        let mut word = [0; 4];
        self.read(at, &mut word).ok()?;
        Some(u32::from_le_bytes(word))
    }

    /// Writes a 32-bit little-endian word at `at`. Does nothing outside the memory.
    fn set_word(&mut self, at: u32, word: u32) {
        self.write(at, &word.to_le_bytes()).unwrap_or_default();
    }
}

fn range(at: u32, len: usize) -> Range<usize> {
    let at = usize::try_from(at).unwrap_or(usize::MAX);
    at..at.saturating_add(len)
}

impl LinearMemory for [u8] {
    fn bytes(&self) -> u64 {
        self.len() as u64
    }

    fn read(&self, at: u32, into: &mut [u8]) -> Result<(), Fault> {
        into.copy_from_slice(self.get(range(at, into.len())).ok_or(Fault)?);
        Ok(())
    }

    fn write(&mut self, at: u32, from: &[u8]) -> Result<(), Fault> {
        self.get_mut(range(at, from.len())).ok_or(Fault)?.copy_from_slice(from);
        Ok(())
    }
}

/// A stopwatch, started when it is created.
pub trait Watch: Clone {
    /// Returns the elapsed time; zero on a platform without a clock.
    fn elapsed(&self) -> Duration;

    /// Returns `true` if the platform has a clock. Time limits do not apply without one.
    fn has_clock(&self) -> bool {
        true
    }
}
