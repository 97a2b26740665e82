//! What the sandbox holds for a guest beside its instance, and what its WASI calls see of that.

use std::time::Duration;

use glovebox_wasi::{Fault, Host, Stop, Stream, Wasi};

use crate::{
    ExecutionCtx, LinearMemory, MemoryLimit, MemoryLimiter, Platform, TrapKind,
    tools::{CALL_FUEL, ToolRunner as _, message_fuel},
};

/// How much fuel one call may be charged between two looks at the deadline: a fifth of a millisecond of host work. Only
/// calls that move megabytes reach it.
const FUEL_BETWEEN_LOOKS: u64 = 1 << 20;

/// What the sandbox holds for a guest beside its instance.
#[derive(Debug)]
pub struct GuestHost<P: Platform> {
    /// Its descriptors, files, streams, clocks, random numbers.
    pub wasi: Box<Wasi>,
    /// What it may hold.
    pub limiter: MemoryLimiter,
    /// The current execution.
    pub ctx: ExecutionCtx<P>,
    /// The trap that ended the last call into it, if one did.
    pub trapped: Option<TrapKind>,
}

impl<P: Platform> GuestHost<P> {
    /// For a guest that has no memory yet.
    pub fn new(wasi: Box<Wasi>, limit: MemoryLimit, ctx: ExecutionCtx<P>) -> Self {
        let limiter = MemoryLimiter::new(limit, wasi.host_bytes());
        Self { wasi, limiter, ctx, trapped: None }
    }

    /// Does something with the WASI state, the guest's memory and the world. Also says what is left of the fuel.
    pub fn call<M: LinearMemory + ?Sized, R>(
        &mut self,
        memory: &mut M,
        fuel_left: u64,
        work: impl FnOnce(&mut Wasi, &mut CallHost<'_, M, P>) -> R,
    ) -> (R, u64) {
        let Self { wasi, limiter, ctx, .. } = self;
        // The tools' share is taken like linear memory: what is left is for files and output.
        wasi.set_linear_memory_bytes(limiter.taken_bytes());
        let mut host = CallHost { memory, ctx, fuel_left, unchecked: 0 };
        let result = work(wasi, &mut host);
        let fuel_left = host.fuel_left;
        limiter.set_host_bytes(wasi.host_bytes());
        // A reply that was delivered has passed from the tools to the WASI state; now that there is less room for others, they
        // let go of it.
        ctx.settle();
        limiter.see_peak();
        (result, fuel_left)
    }

    /// The WASI state as it can be saved: the monotonic clock without this instance's share.
    pub(crate) fn settled_wasi(&mut self) -> Wasi {
        let mut wasi = (*self.wasi).clone();
        let memory: &mut [u8] = &mut [];
        wasi.settle_clock(&mut CallHost { memory, ctx: &mut self.ctx, fuel_left: u64::MAX, unchecked: 0 });
        wasi
    }
}

/// What a WASI call sees of guest and host.
pub struct CallHost<'a, M: ?Sized, P: Platform> {
    memory: &'a mut M,
    ctx: &'a mut ExecutionCtx<P>,
    fuel_left: u64,
    /// What was charged since the deadline was last looked at.
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
        // As Wasmtime's own rule has it: the fuel is out when what was charged reaches the budget.
        self.fuel_left = self.fuel_left.saturating_sub(fuel);
        if self.fuel_left == 0 {
            return Err(Stop::OutOfFuel);
        }
        // The clock is only looked at by the guest's own code, and one call may fill or copy gigabytes.
        self.unchecked = self.unchecked.saturating_add(fuel);
        if self.unchecked < FUEL_BETWEEN_LOOKS {
            return Ok(());
        }
        self.unchecked = 0;
        self.ctx.look(self.fuel_left, self.memory)
    }

    fn realtime_ns(&mut self) -> u64 {
        self.ctx.platform.realtime_ns()
    }

    fn monotonic_ns(&mut self) -> u64 {
        u64::try_from(self.ctx.age().as_nanos()).unwrap_or(u64::MAX)
    }

    fn sleep_ns(&mut self, duration: u64) -> Result<(), Stop> {
        self.ctx.sleep(Duration::from_nanos(duration), self.fuel_left, self.memory).map(drop)
    }

    fn fill_random(&mut self, into: &mut [u8]) {
        self.ctx.platform.fill_random(into);
    }

    fn output(&mut self, stream: Stream, bytes: &[u8]) {
        self.ctx.platform.output(stream, bytes);
    }

    fn stdin(&mut self) -> Result<Option<Vec<u8>>, Stop> {
        P::stdin(self.ctx, self.fuel_left, self.memory)
    }

    fn tool_send(&mut self, message: &[u8]) -> Result<(), Stop> {
        self.charge(message_fuel(message.len()))?;
        if self.ctx.send(message) {
            self.charge(CALL_FUEL)?;
            if P::Tools::RUN_INLINE {
                // The tool may have taken its time.
                self.ctx.look(self.fuel_left, self.memory)?;
            }
        }
        Ok(())
    }

    fn tool_receive(&mut self) -> Result<Option<Vec<u8>>, Stop> {
        Ok(self.ctx.receive(self.fuel_left, self.memory)?.map(String::into_bytes))
    }
}
