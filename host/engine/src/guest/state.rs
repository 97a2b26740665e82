//! Data of a guest's store, and the classification of early ends of calls into guests.

use glovebox_core::{GuestHost, MemoryLimit, MemoryLimiter};
use glovebox_wasi::{Stop, Wasi};
use wasmtime::{Memory, ResourceLimiter, StoreContextMut, Trap};

use crate::{
    TrapKind,
    exec::platform::{EnginePlatform, ExecutionCtx},
};

/// Maximum number of elements in all tables of a guest. CPython's has 5,903 and does not grow.
pub(crate) const MAX_TABLE_ELEMENTS: usize = 1 << 16;

/// State of a guest outside its WebAssembly instance.
pub(crate) struct GuestStoreData {
    pub(crate) host: GuestHost<EnginePlatform>,
    pub(crate) memory: Option<Memory>,
    /// Fuel of a guest whose code does not meter it: all of it always remains. `None` if Wasmtime meters.
    pub(crate) uncounted: Option<u64>,
    tables: TableLimiter,
}

impl GuestStoreData {
    pub(crate) fn new(wasi: Box<Wasi>, memory: MemoryLimit, ctx: ExecutionCtx) -> Self {
        Self { host: GuestHost::new(wasi, memory, ctx), memory: None, uncounted: None, tables: TableLimiter::default() }
    }

    /// Takes over an instance with its tables and `memory_bytes` of memory from another state. Returns `false` if this
    /// state's limit does not allow the memory.
    pub(crate) fn adopt(&mut self, other: &Self, memory_bytes: u64) -> bool {
        self.tables = other.tables;
        self.uncounted = other.uncounted;
        self.host.limiter.grow(0, memory_bytes, None)
    }
}

/// Returns the guest's remaining fuel, or `u64::MAX` if its code does not meter fuel.
pub(crate) fn fuel_left(context: &StoreContextMut<'_, GuestStoreData>) -> wasmtime::Result<u64> {
    match context.data().uncounted {
        Some(_) => Ok(u64::MAX),
        None => context.get_fuel(),
    }
}

/// Enforces one limit on all tables of an instance.
#[derive(Clone, Copy, Default)]
struct TableLimiter {
    /// Elements of all tables.
    elements: usize,
}

impl TableLimiter {
    fn grow(&mut self, current: usize, desired: usize, maximum: Option<usize>) -> bool {
        let all = self.elements.saturating_add(desired.saturating_sub(current));
        if all > MAX_TABLE_ELEMENTS || maximum.is_some_and(|max| desired > max) {
            return false;
        }
        self.elements = all;
        true
    }
}

/// Enforces the limits on memories and tables in stores without `GuestStoreData`.
pub(crate) struct GuestLimiter {
    pub(crate) memory: MemoryLimiter,
    tables: TableLimiter,
}

impl GuestLimiter {
    pub(crate) fn new(memory: MemoryLimiter) -> Self {
        Self { memory, tables: TableLimiter::default() }
    }
}

impl ResourceLimiter for GuestLimiter {
    fn memory_growing(&mut self, current: usize, desired: usize, maximum: Option<usize>) -> wasmtime::Result<bool> {
        Ok(grow_memory(&mut self.memory, current, desired, maximum))
    }

    fn table_growing(&mut self, current: usize, desired: usize, maximum: Option<usize>) -> wasmtime::Result<bool> {
        Ok(self.tables.grow(current, desired, maximum))
    }
}

impl ResourceLimiter for GuestStoreData {
    fn memory_growing(&mut self, current: usize, desired: usize, maximum: Option<usize>) -> wasmtime::Result<bool> {
        Ok(grow_memory(&mut self.host.limiter, current, desired, maximum))
    }

    fn table_growing(&mut self, current: usize, desired: usize, maximum: Option<usize>) -> wasmtime::Result<bool> {
        Ok(self.tables.grow(current, desired, maximum))
    }
}

fn grow_memory(limiter: &mut MemoryLimiter, current: usize, desired: usize, maximum: Option<usize>) -> bool {
    limiter.grow(current as u64, desired as u64, maximum.map(|max| max as u64))
}

/// A [`Stop`] wrapped in an error of Wasmtime.
#[derive(Debug, thiserror::Error)]
#[error("the guest was unwound")]
pub(crate) struct Unwound(pub(crate) Stop);

/// Cause of a call's early end.
#[derive(Debug)]
pub(crate) enum Ended {
    /// The host unwound the guest, or its fuel ran out.
    Stopped(Stop),
    /// A WebAssembly trap.
    Trapped(TrapKind),
}

/// Extracts the cause from Wasmtime's error.
pub(crate) fn classify(error: wasmtime::Error) -> Ended {
    if error.is::<Unwound>() {
        return match error.downcast::<Unwound>() {
            Ok(Unwound(stop)) => Ended::Stopped(stop),
            Err(_) => Ended::Trapped(TrapKind::Other),
        };
    }
    Ended::Trapped(match error.downcast_ref::<Trap>() {
        Some(Trap::OutOfFuel) => return Ended::Stopped(Stop::OutOfFuel),
        Some(Trap::Interrupt) => return Ended::Stopped(Stop::Deadline),
        Some(Trap::StackOverflow) => TrapKind::StackOverflow,
        Some(Trap::UnreachableCodeReached) => TrapKind::Unreachable,
        Some(Trap::MemoryOutOfBounds | Trap::HeapMisaligned | Trap::TableOutOfBounds | Trap::ArrayOutOfBounds) => {
            TrapKind::OutOfBounds
        }
        Some(Trap::IndirectCallToNull | Trap::BadSignature | Trap::NullReference | Trap::CastFailure) => {
            TrapKind::BadCall
        }
        Some(Trap::IntegerOverflow | Trap::IntegerDivisionByZero | Trap::BadConversionToInteger) => {
            TrapKind::Arithmetic
        }
        _ => TrapKind::Other,
    })
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

    #[test]
    fn every_way_a_guest_ends_has_its_own_reading() {
        let table = [
            (Trap::StackOverflow, TrapKind::StackOverflow),
            (Trap::UnreachableCodeReached, TrapKind::Unreachable),
            (Trap::MemoryOutOfBounds, TrapKind::OutOfBounds),
            (Trap::TableOutOfBounds, TrapKind::OutOfBounds),
            (Trap::IndirectCallToNull, TrapKind::BadCall),
            (Trap::BadSignature, TrapKind::BadCall),
            (Trap::IntegerDivisionByZero, TrapKind::Arithmetic),
        ];
        for (trap, kind) in table {
            assert!(matches!(classify(trap.into()), Ended::Trapped(got) if got == kind), "{trap:?}");
        }
        assert!(matches!(classify(Trap::OutOfFuel.into()), Ended::Stopped(Stop::OutOfFuel)));
        assert!(matches!(classify(Trap::Interrupt.into()), Ended::Stopped(Stop::Deadline)));
        let exit = wasmtime::Error::new(Unwound(Stop::Exit(3)));
        assert!(matches!(classify(exit), Ended::Stopped(Stop::Exit(3))));
        let host = wasmtime::Error::msg("all fuel consumed by WebAssembly");
        assert!(matches!(classify(host), Ended::Trapped(TrapKind::Other)), "text is never looked at");
    }
}
