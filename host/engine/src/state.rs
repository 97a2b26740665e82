//! What a store holds for its guest.

use std::time::{SystemTime, UNIX_EPOCH};

use glovebox_core::{MemoryLimit, MemoryLimiter};
use glovebox_wasi::Wasi;
use wasmtime::{Memory, ResourceLimiter};

use crate::current::Run;

/// The most elements a guest's tables may have together. CPython's has 5,903 and does not grow.
pub(crate) const MAX_TABLE_ELEMENTS: usize = 1 << 16;

/// Everything of a guest that is not in its WebAssembly instance.
pub(crate) struct State {
    pub(crate) wasi: Box<Wasi>,
    pub(crate) memory: Option<Memory>,
    pub(crate) limiter: GuestLimiter,
    pub(crate) run: Run,
}

impl State {
    pub(crate) fn new(wasi: Box<Wasi>, memory: MemoryLimit, run: Run) -> Self {
        let limiter = GuestLimiter::new(MemoryLimiter::new(memory, wasi.host_bytes()));
        Self { limiter, wasi, memory: None, run }
    }
}

/// The host's time in nanoseconds since 1970.
pub(crate) fn realtime_ns() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

/// Holds a guest's memories and tables to their limits.
pub(crate) struct GuestLimiter {
    pub(crate) memory: MemoryLimiter,
    /// Elements of all tables.
    table_elements: usize,
}

impl GuestLimiter {
    pub(crate) fn new(memory: MemoryLimiter) -> Self {
        Self { memory, table_elements: 0 }
    }

    /// Takes over an instance from another limiter: it has this much memory, and its tables as they were.
    pub(crate) fn adopt(&mut self, other: &Self, memory_bytes: u64) -> bool {
        self.table_elements = other.table_elements;
        self.memory.grow(0, memory_bytes, None)
    }
}

impl ResourceLimiter for GuestLimiter {
    fn memory_growing(&mut self, current: usize, desired: usize, maximum: Option<usize>) -> wasmtime::Result<bool> {
        Ok(self.memory.grow(current as u64, desired as u64, maximum.map(|most| most as u64)))
    }

    fn table_growing(&mut self, current: usize, desired: usize, maximum: Option<usize>) -> wasmtime::Result<bool> {
        let all = self.table_elements.saturating_add(desired.saturating_sub(current));
        if all > MAX_TABLE_ELEMENTS || maximum.is_some_and(|most| desired > most) {
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
    fn memory_is_held_to_the_limit() {
        let mut limiter = GuestLimiter::new(MemoryLimiter::new(100, 30));
        assert!(limiter.memory_growing(0, 70, None).unwrap(), "at");
        assert!(!limiter.memory_growing(70, 71, None).unwrap(), "over");
        assert_eq!(limiter.memory.refused_bytes(), Some(101));
    }

    #[test]
    fn a_table_cannot_grow_without_bound() {
        let mut limiter = GuestLimiter::new(MemoryLimiter::default());
        assert!(!limiter.table_growing(0, MAX_TABLE_ELEMENTS + 1, None).unwrap(), "over");
        assert!(limiter.table_growing(0, MAX_TABLE_ELEMENTS, None).unwrap(), "at");
        assert!(!limiter.table_growing(0, 1, None).unwrap(), "a second table shares the bound");
    }
}
