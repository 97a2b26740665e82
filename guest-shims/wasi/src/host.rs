//! What the embedder supplies.

/// One of the guest's output streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Stream {
    /// Standard output, descriptor 1.
    Stdout,
    /// Standard error, descriptor 2.
    Stderr,
}

/// Why a guest is unwound. An unwound guest is never entered again.
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
    /// Another reason of the embedder, in words.
    Trap(String),
}

/// An access outside the guest's linear memory; the guest sees `EFAULT`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault;

/// The guest's memory and the environment, as the embedder passes them to each call.
pub trait Host {
    /// The size of the linear memory in bytes.
    fn memory_len(&self) -> u64;

    /// Copies guest memory out.
    fn read(&mut self, at: u32, into: &mut [u8]) -> Result<(), Fault>;

    /// Copies into guest memory.
    fn write(&mut self, at: u32, from: &[u8]) -> Result<(), Fault>;

    /// Takes fuel for work on the guest's behalf; always called before the work.
    fn charge(&mut self, fuel: u64) -> Result<(), Stop>;

    /// Nanoseconds since 1970. Only called under [`Clock::Host`](crate::Clock::Host).
    fn realtime_ns(&mut self) -> u64;

    /// Nanoseconds since this instance was created. Only called under [`Clock::Host`](crate::Clock::Host).
    fn monotonic_ns(&mut self) -> u64;

    /// Waits. Must be cancellable and end with [`Stop::Deadline`] at the latest at the deadline, whatever the duration.
    fn sleep_ns(&mut self, duration: u64) -> Result<(), Stop>;

    /// Fills `into` with unpredictable bytes. Only called under [`Entropy::Host`](crate::Entropy::Host).
    fn fill_random(&mut self, into: &mut [u8]);

    /// Receives output as it is accepted (never what the caps drop), for streaming.
    fn output(&mut self, stream: Stream, bytes: &[u8]);

    /// Supplies standard input that was not given beforehand: called when the guest reads and nothing is left. `None`
    /// at the end of the input. Must be cancellable, and end with [`Stop::Deadline`] at the latest at the deadline.
    /// Default: `None`.
    fn stdin(&mut self) -> Result<Option<Vec<u8>>, Stop> {
        Ok(None)
    }

    /// Takes a whole message that the guest wrote to the tools device. An error ends the guest; a fault in the message
    /// itself is answered by a reply. Default: messages are dropped.
    fn tool_send(&mut self, message: &[u8]) -> Result<(), Stop> {
        let _ = message;
        Ok(())
    }

    /// Waits for the next reply to the guest's messages. `None` if no reply is due, or the timeout set by the guest has
    /// passed. The reply must already be within the guest's memory limit: it is delivered whatever room is left. Must
    /// be cancellable, and end with [`Stop::Deadline`] at the latest at the deadline.
    fn tool_receive(&mut self) -> Result<Option<Vec<u8>>, Stop> {
        Ok(None)
    }
}
