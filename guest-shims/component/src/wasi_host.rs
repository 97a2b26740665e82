//! What a guest's WASI calls see of it and of the world. The prices and their order are the engine's: equal scripts cost equal fuel.

use std::time::Duration;

use glovebox_core::tools::{CALL_FUEL, message_fuel};
use glovebox_wasi::{Fault, Host, Stop, Stream};

use crate::{GuestMemory, Run};

/// How much fuel one call may be charged between two looks at the clock: a fifth of a millisecond of host work.
const FUEL_BETWEEN_LOOKS: u64 = 1 << 20;

/// What a WASI call sees of guest and host.
#[derive(Debug)]
pub struct CallHost<'a> {
    memory: &'a mut GuestMemory,
    run: &'a mut Run,
    fuel_left: u64,
    /// What was charged since the clock was last looked at.
    unchecked: u64,
}

impl<'a> CallHost<'a> {
    pub(crate) fn new(memory: &'a mut GuestMemory, run: &'a mut Run, fuel_left: u64) -> Self {
        Self { memory, run, fuel_left, unchecked: 0 }
    }

    pub(crate) fn fuel_left(&self) -> u64 {
        self.fuel_left
    }
}

impl Host for CallHost<'_> {
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
        self.fuel_left = self.fuel_left.saturating_sub(fuel);
        if self.fuel_left == 0 {
            return Err(Stop::OutOfFuel);
        }
        self.unchecked = self.unchecked.saturating_add(fuel);
        if self.unchecked < FUEL_BETWEEN_LOOKS {
            return Ok(());
        }
        self.unchecked = 0;
        self.run.look(self.fuel_left, self.memory)
    }

    fn realtime_ns(&mut self) -> u64 {
        self.run.realtime_ns()
    }

    fn monotonic_ns(&mut self) -> u64 {
        u64::try_from(self.run.age().as_nanos()).unwrap_or(u64::MAX)
    }

    fn sleep_ns(&mut self, duration: u64) -> Result<(), Stop> {
        self.run.sleep(Duration::from_nanos(duration), self.fuel_left, self.memory)
    }

    fn fill_random(&mut self, into: &mut [u8]) {
        // Never asked: a policy with the host's entropy is refused, for there is none.
        into.fill(0);
    }

    fn output(&mut self, _stream: Stream, _bytes: &[u8]) {
        // Nobody listens: output is read when the execution is over.
    }

    fn tool_send(&mut self, message: &[u8]) -> Result<(), Stop> {
        self.charge(message_fuel(message.len()))?;
        if self.run.send(message) {
            self.charge(CALL_FUEL)?;
            // The tool may have taken its time.
            self.run.look(self.fuel_left, self.memory)?;
        }
        Ok(())
    }

    fn tool_receive(&mut self) -> Result<Option<Vec<u8>>, Stop> {
        Ok(self.run.receive(self.fuel_left, self.memory)?.map(String::into_bytes))
    }
}
