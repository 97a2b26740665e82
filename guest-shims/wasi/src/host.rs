//! What the embedder supplies.

/// Which of the guest's output streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Stream {
    /// Standard output, descriptor 1.
    Stdout,
    /// Standard error, descriptor 2.
    Stderr,
}

/// Why a guest is unwound. A guest that was unwound is never entered again.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Stop {
    /// It called `proc_exit` with this code.
    Exit(i32),
    /// It reached the point at which it is parked for a snapshot (preparation only).
    Parked,
    /// Its fuel is used up.
    OutOfFuel,
    /// Its wall-clock limit is reached.
    Deadline,
    /// The embedder cancelled it.
    Cancelled,
    /// The embedder met something else that ends it, in words.
    Trap(String),
}

/// An access outside the guest's linear memory; the guest sees `EFAULT`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault;

/// The guest's memory and the world, as the embedder hands them to each call.
pub trait Host {
    /// The size of the linear memory in bytes.
    fn memory_len(&self) -> u64;

    /// Copies guest memory out.
    fn read(&mut self, at: u32, into: &mut [u8]) -> Result<(), Fault>;

    /// Copies into guest memory.
    fn write(&mut self, at: u32, from: &[u8]) -> Result<(), Fault>;

    /// Takes fuel for work done on the guest's behalf; always called before the work.
    fn charge(&mut self, fuel: u64) -> Result<(), Stop>;

    /// Nanoseconds since 1970. Only asked under [`Clock::Host`](crate::Clock::Host).
    fn realtime_ns(&mut self) -> u64;

    /// Nanoseconds since this instance was made. Only asked under [`Clock::Host`](crate::Clock::Host).
    fn monotonic_ns(&mut self) -> u64;

    /// Waits. Must be cancellable and end with [`Stop::Deadline`] at the latest at the deadline, whatever the duration.
    fn sleep_ns(&mut self, duration: u64) -> Result<(), Stop>;

    /// Fills `into` with unpredictable bytes. Only asked under [`Entropy::Host`](crate::Entropy::Host).
    fn fill_random(&mut self, into: &mut [u8]);

    /// Told of output as it is accepted (never of what the caps cut off), for streaming.
    fn output(&mut self, stream: Stream, bytes: &[u8]);

    /// What standard input is, where it was not given beforehand: asked for when the guest reads it and nothing is left. None where
    /// there is no more. Must be cancellable, and end with [`Stop::Deadline`] at the latest at the deadline. Default: none.
    fn stdin(&mut self) -> Result<Option<Vec<u8>>, Stop> {
        Ok(None)
    }

    /// Takes a message that the guest wrote to the tools device, whole. An error ends the guest; whatever is wrong with the
    /// message itself is answered by a reply. Default: nobody listens.
    fn tool_send(&mut self, message: &[u8]) -> Result<(), Stop> {
        let _ = message;
        Ok(())
    }

    /// Waits for the next reply to the guest's messages; none where no reply is due, or the time that the guest set is over.
    /// A reply must be within the guest's memory limit already: it is delivered whatever room there is. Must be cancellable, and
    /// end with [`Stop::Deadline`] at the latest at the deadline.
    fn tool_receive(&mut self) -> Result<Option<Vec<u8>>, Stop> {
        Ok(None)
    }
}
