//! What an application's memories and tables take, all together.

use wasmtime::ResourceLimiter;

use crate::AppLimits;

/// Counts memories and tables of one store. Nothing in it is freed before the store is, so that sums only grow.
#[derive(Debug)]
pub(crate) struct Limiter {
    memory: Sum,
    tables: Sum,
    instances: usize,
}

/// A sum with a limit.
#[derive(Debug)]
struct Sum {
    used: u64,
    most: u64,
    /// What the last growth added, should it fail after it was allowed.
    last: u64,
    /// The sum that was refused, if any was.
    refused: Option<u64>,
}

impl Sum {
    fn new(most: u64) -> Self {
        Self { used: 0, most, last: 0, refused: None }
    }

    fn grow(&mut self, current: usize, desired: usize) -> bool {
        let more = u64::try_from(desired.saturating_sub(current)).unwrap_or(u64::MAX);
        let wanted = self.used.saturating_add(more);
        if wanted > self.most {
            self.refused = Some(wanted);
            return false;
        }
        (self.used, self.last) = (wanted, more);
        true
    }

    fn failed(&mut self) {
        self.used = self.used.saturating_sub(std::mem::take(&mut self.last));
    }
}

impl Limiter {
    pub(crate) fn new(limits: &AppLimits) -> Self {
        Self {
            memory: Sum::new(limits.memory_bytes),
            tables: Sum::new(limits.table_elements),
            instances: limits.instances,
        }
    }

    /// Bytes of all memories.
    pub(crate) fn memory_bytes(&self) -> u64 {
        self.memory.used
    }

    /// What all memories would have been, had the limit not refused it.
    pub(crate) fn refused_bytes(&self) -> Option<u64> {
        self.memory.refused
    }
}

impl ResourceLimiter for Limiter {
    fn memory_growing(&mut self, current: usize, desired: usize, _maximum: Option<usize>) -> wasmtime::Result<bool> {
        Ok(self.memory.grow(current, desired))
    }

    fn memory_grow_failed(&mut self, _error: wasmtime::Error) -> wasmtime::Result<()> {
        self.memory.failed();
        Ok(())
    }

    fn table_growing(&mut self, current: usize, desired: usize, _maximum: Option<usize>) -> wasmtime::Result<bool> {
        Ok(self.tables.grow(current, desired))
    }

    fn table_grow_failed(&mut self, _error: wasmtime::Error) -> wasmtime::Result<()> {
        self.tables.failed();
        Ok(())
    }

    fn instances(&self) -> usize {
        self.instances
    }

    fn memories(&self) -> usize {
        self.instances.div_ceil(10)
    }

    fn tables(&self) -> usize {
        self.instances
    }
}

#[cfg(test)]
mod tests {
    use wasmtime::ResourceLimiter as _;

    use super::Limiter;
    use crate::AppLimits;

    fn limiter() -> Limiter {
        Limiter::new(&AppLimits { memory_bytes: 100, table_elements: 10, ..AppLimits::default() })
    }

    #[test]
    fn memories_count_together_under_at_and_over_the_limit() {
        let mut limiter = limiter();
        assert!(limiter.memory_growing(0, 60, None).unwrap());
        assert!(limiter.memory_growing(0, 39, None).unwrap());
        assert!(!limiter.memory_growing(39, 41, None).unwrap());
        assert_eq!((limiter.memory_bytes(), limiter.refused_bytes()), (99, Some(101)));
        assert!(limiter.memory_growing(60, 61, None).unwrap());
        assert!(!limiter.memory_growing(0, usize::MAX, None).unwrap());
        assert_eq!(limiter.memory_bytes(), 100);
    }

    #[test]
    fn a_growth_that_the_system_did_not_grant_is_not_counted() {
        let mut limiter = limiter();
        assert!(limiter.memory_growing(0, 60, None).unwrap());
        assert!(limiter.memory_growing(60, 100, None).unwrap());
        limiter.memory_grow_failed(wasmtime::Error::msg("no memory")).unwrap();
        assert_eq!(limiter.memory_bytes(), 60);
        // One that the limiter refused itself is told in the same way, and takes nothing back.
        assert!(!limiter.memory_growing(0, 41, None).unwrap());
        limiter.memory_grow_failed(wasmtime::Error::msg("refused")).unwrap();
        assert_eq!(limiter.memory_bytes(), 60);
    }

    #[test]
    fn tables_have_a_sum_of_their_own() {
        let mut limiter = limiter();
        assert!(limiter.table_growing(0, 10, None).unwrap());
        assert!(!limiter.table_growing(0, 1, None).unwrap());
        assert!(limiter.memory_growing(0, 100, None).unwrap());
    }
}
