//! What a store holds for its guest.

use std::{
    sync::Arc,
    time::{SystemTime, UNIX_EPOCH},
};

use glovebox_wasi::Wasi;
use wasmtime::{Memory, ResourceLimiter};

use crate::{current::Run, tools::Account};

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

impl State {
    pub(crate) fn new(wasi: Box<Wasi>, memory_limit_bytes: u64, run: Run) -> Self {
        let reserve_bytes = OUTPUT_RESERVE_BYTES.min(memory_limit_bytes / 8);
        let mut limiter = MemoryLimiter { limit_bytes: memory_limit_bytes, reserve_bytes, ..MemoryLimiter::default() };
        limiter.set_host_bytes(wasi.host_bytes());
        limiter.see_peak();
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
    /// What the host holds beside calls of tools: kept current by every WASI call.
    host_bytes: u64,
    pub(crate) linear_bytes: u64,
    /// What the host holds for calls of tools, in the current execution.
    pub(crate) tools: Arc<Account>,
    /// Elements of all tables.
    table_elements: usize,
    /// The most that all were together.
    pub(crate) peak_bytes: u64,
    /// What a refused growth would have brought the sum to, in the current execution.
    pub(crate) refused_bytes: Option<u64>,
}

impl MemoryLimiter {
    /// The most that was in use in the current execution.
    pub(crate) fn used_bytes(&self) -> u64 {
        self.peak_bytes.max(self.sum_bytes())
    }

    /// Says what the host holds beside calls of tools.
    pub(crate) fn set_host_bytes(&mut self, bytes: u64) {
        self.host_bytes = bytes;
        self.tools.set_room(self.limit_bytes.saturating_sub(self.linear_bytes.saturating_add(bytes)));
    }

    /// What is in use now may be the most.
    pub(crate) fn see_peak(&mut self) {
        self.peak_bytes = self.peak_bytes.max(self.sum_bytes());
    }

    /// Begins an execution, whose calls of tools are on this account.
    pub(crate) fn begin(&mut self, tools: Arc<Account>) {
        self.refused_bytes = None;
        self.peak_bytes = 0;
        self.tools = tools;
        self.set_host_bytes(self.host_bytes);
    }

    fn sum_bytes(&self) -> u64 {
        self.linear_bytes.saturating_add(self.host_bytes).saturating_add(self.tools.held_bytes())
    }
}

impl ResourceLimiter for MemoryLimiter {
    fn memory_growing(&mut self, current: usize, desired: usize, maximum: Option<usize>) -> wasmtime::Result<bool> {
        let grown = (desired as u64).saturating_sub(current as u64);
        let sum = self.sum_bytes().saturating_add(grown);
        // The memory that an instance begins with is not the guest's to choose.
        let reserve_bytes = if current == 0 { 0 } else { self.reserve_bytes };
        let linear_bytes = self.linear_bytes.saturating_add(grown);
        let others = linear_bytes.saturating_add(self.host_bytes).saturating_add(reserve_bytes);
        let fits = maximum.is_none_or(|most| desired <= most)
            && self.limit_bytes.checked_sub(others).is_some_and(|left| {
                // Tools may take of the reserve what they like, and a thread of theirs may do so right now.
                self.tools.held_bytes() <= left && self.tools.try_set_room(left.saturating_add(reserve_bytes))
            });
        if !fits {
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
    fn memory_and_calls_of_tools_share_one_limit() {
        let tools = Arc::new(Account::default());
        let mut limiter = MemoryLimiter { limit_bytes: 100, ..MemoryLimiter::default() };
        limiter.set_host_bytes(30);
        limiter.begin(Arc::clone(&tools));
        let held = tools.hold(20).unwrap();
        assert!(limiter.memory_growing(0, 49, None).unwrap(), "under");
        assert!(tools.hold(2).is_none(), "over");
        assert!(limiter.memory_growing(49, 50, None).unwrap(), "at");
        assert!(!limiter.memory_growing(50, 51, None).unwrap(), "over");
        assert!(tools.hold(1).is_none(), "over");
        assert_eq!((limiter.refused_bytes, limiter.used_bytes()), (Some(101), 100));
        drop(held);
        assert!(limiter.memory_growing(50, 51, None).unwrap(), "usable once the tools hold less");
        assert!(tools.hold(19).is_some(), "and they in turn have what is left");
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
