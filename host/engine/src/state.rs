//! What a store holds for its guest.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use glovebox_wasi::{Stop, Stream, Wasi};
use wasmtime::{Memory, ResourceLimiter};

use crate::{CancelToken, request::OnOutput};

/// The most elements a guest's tables may have together. CPython's has 5,903 and does not grow.
pub(crate) const TABLE_ELEMENTS_MOST: usize = 1 << 16;

/// Kept free of linear memory under the memory limit, so that a guest that has taken all it may can still say so.
const OUTPUT_RESERVE_BYTES: u64 = 256 << 10;

/// Everything of a guest that is not in its WebAssembly instance.
pub(crate) struct State {
    pub(crate) wasi: Box<Wasi>,
    pub(crate) memory: Option<Memory>,
    pub(crate) limiter: MemoryLimiter,
    pub(crate) run: Run,
}

/// What holds for the current execution only.
pub(crate) struct Run {
    made: Instant,
    pub(crate) begun: Instant,
    deadline: Instant,
    cancel: CancelToken,
    on_output: Option<OnOutput>,
}

impl Run {
    pub(crate) fn new(timeout: Duration, cancel: CancelToken, on_output: Option<OnOutput>) -> Self {
        let begun = Instant::now();
        Self { made: begun, begun, deadline: begun + timeout, cancel, on_output }
    }

    /// Goes on with a kept guest: its monotonic clock continues.
    pub(crate) fn renew(&mut self, next: Self) {
        *self = Self { made: self.made, ..next };
    }

    /// Whether the guest must stop now.
    pub(crate) fn check(&self) -> Result<(), Stop> {
        if self.cancel.is_cancelled() {
            return Err(Stop::Cancelled);
        }
        if Instant::now() >= self.deadline { Err(Stop::Deadline) } else { Ok(()) }
    }

    /// Waits for a guest that sleeps: until the time is over, the deadline, or cancellation, whichever comes first.
    pub(crate) fn sleep(&self, duration: Duration) -> Result<(), Stop> {
        let end = Instant::now().checked_add(duration).unwrap_or(self.deadline);
        if self.cancel.wait_until(end.min(self.deadline)) {
            return Err(Stop::Cancelled);
        }
        if end >= self.deadline { Err(Stop::Deadline) } else { Ok(()) }
    }

    /// Nanoseconds since this guest's instance was made.
    pub(crate) fn monotonic_ns(&self) -> u64 {
        u64::try_from(self.made.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    pub(crate) fn output(&mut self, stream: Stream, bytes: &[u8]) {
        if let Some(listener) = &mut self.on_output {
            listener(stream, bytes);
        }
    }
}

impl State {
    pub(crate) fn new(wasi: Box<Wasi>, memory_limit_bytes: u64, run: Run) -> Self {
        let reserve_bytes = OUTPUT_RESERVE_BYTES.min(memory_limit_bytes / 8);
        let mut limiter = MemoryLimiter { limit_bytes: memory_limit_bytes, reserve_bytes, ..MemoryLimiter::default() };
        limiter.set_host_bytes(wasi.host_bytes());
        Self { limiter, wasi, memory: None, run }
    }
}

/// The host's time in nanoseconds since 1970.
pub(crate) fn realtime_ns() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

/// Holds linear memory and what the host keeps for the guest under one limit.
#[derive(Debug, Default)]
pub(crate) struct MemoryLimiter {
    pub(crate) limit_bytes: u64,
    /// What of it linear memory may not take.
    pub(crate) reserve_bytes: u64,
    /// What the host holds: kept current by every WASI call.
    host_bytes: u64,
    pub(crate) linear_bytes: u64,
    /// Elements of all tables.
    table_elements: usize,
    /// The most that both were together.
    pub(crate) peak_bytes: u64,
    /// What a refused growth would have brought the sum to, in the current execution.
    pub(crate) refused_bytes: Option<u64>,
}

impl MemoryLimiter {
    /// The most that was in use in the current execution.
    pub(crate) fn used_bytes(&self) -> u64 {
        self.peak_bytes.max(self.linear_bytes.saturating_add(self.host_bytes))
    }

    pub(crate) fn set_host_bytes(&mut self, bytes: u64) {
        self.host_bytes = bytes;
        self.peak_bytes = self.peak_bytes.max(self.linear_bytes.saturating_add(bytes));
    }
}

impl ResourceLimiter for MemoryLimiter {
    fn memory_growing(&mut self, current: usize, desired: usize, maximum: Option<usize>) -> wasmtime::Result<bool> {
        let grown = (desired as u64).saturating_sub(current as u64);
        let linear_bytes = self.linear_bytes.saturating_add(grown);
        let sum = linear_bytes.saturating_add(self.host_bytes);
        // The memory that an instance begins with is not the guest's to choose.
        let reserve_bytes = if current == 0 { 0 } else { self.reserve_bytes };
        if sum.saturating_add(reserve_bytes) > self.limit_bytes || maximum.is_some_and(|most| desired > most) {
            self.refused_bytes = Some(sum);
            return Ok(false);
        }
        self.linear_bytes = linear_bytes;
        self.peak_bytes = self.peak_bytes.max(sum);
        Ok(true)
    }

    fn table_growing(&mut self, current: usize, desired: usize, maximum: Option<usize>) -> wasmtime::Result<bool> {
        let all = self.table_elements.saturating_add(desired.saturating_sub(current));
        if all > TABLE_ELEMENTS_MOST || maximum.is_some_and(|most| desired > most) {
            return Ok(false);
        }
        self.table_elements = all;
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn linear_memory_and_host_memory_share_one_limit() {
        let mut limiter = MemoryLimiter { limit_bytes: 100, ..MemoryLimiter::default() };
        limiter.set_host_bytes(30);
        assert!(limiter.memory_growing(0, 40, None).unwrap(), "under");
        assert!(limiter.memory_growing(40, 70, None).unwrap(), "at");
        assert!(!limiter.memory_growing(70, 71, None).unwrap(), "over");
        assert_eq!(limiter.refused_bytes, Some(101));
        limiter.set_host_bytes(29);
        assert!(limiter.memory_growing(70, 71, None).unwrap(), "usable once the host holds less");
    }

    #[test]
    fn linear_memory_leaves_room_for_output() {
        let mut limiter = MemoryLimiter { limit_bytes: 100, reserve_bytes: 10, ..MemoryLimiter::default() };
        assert!(limiter.memory_growing(0, 80, None).unwrap());
        assert!(limiter.memory_growing(80, 90, None).unwrap(), "at");
        assert!(!limiter.memory_growing(90, 91, None).unwrap(), "over");
    }

    #[test]
    fn several_memories_are_summed() {
        let mut limiter = MemoryLimiter { limit_bytes: 100, ..MemoryLimiter::default() };
        assert!(limiter.memory_growing(0, 60, None).unwrap());
        assert!(!limiter.memory_growing(0, 60, None).unwrap(), "a second memory of the same size does not fit");
    }

    #[test]
    fn a_table_cannot_grow_without_bound() {
        let mut limiter = MemoryLimiter::default();
        assert!(!limiter.table_growing(0, TABLE_ELEMENTS_MOST + 1, None).unwrap(), "over");
        assert!(limiter.table_growing(0, TABLE_ELEMENTS_MOST, None).unwrap(), "at");
        assert!(!limiter.table_growing(0, 1, None).unwrap(), "a second table shares the bound");
    }
}
