//! Reused instances and stacks. A recycled instance has run a script, has been restored to its image, and waits for the
//! next script.
//!
//! Dropping an instance and creating a new instance costs more than most scripts. The kernel unmaps pages and maps them
//! again fault by fault, which interrupts the other threads of the process. An instance whose script ended normally is
//! restored instead. Its private pages are known ([`private_pages`](super::private_pages)) and are copied from the
//! image, like the globals. Tables and segments cannot differ, because the image's code contains no instruction that
//! changes them ([`rewrite::changes_only_memory_and_globals`]). The store receives a new [`GuestStoreData`].
//!
//! An instance is dropped if it was unwound, exited with `os._exit` or grew its memory. An instance is also dropped if
//! restoring it would take a long time compared with its script, or if the system has no page map. Without a pool, as
//! in programs that run a single script, instances are not recycled.
//!
//! [`rewrite::changes_only_memory_and_globals`]: glovebox_runtimes::rewrite::changes_only_memory_and_globals
//! [`GuestStoreData`]: crate::guest::recycled::GuestStoreData

use std::{
    io, mem,
    num::NonZero,
    sync::{Mutex, MutexGuard, PoisonError},
    thread::{self, ThreadId},
    time::Duration,
};

use corosensei::{on_stack, stack::DefaultStack};
use glovebox_core::{GuestHost, MemoryLimit, MemoryLimiter, session::PAGE_BYTES};
use glovebox_interpreters::Machine;
use glovebox_wasi::{Stop, Wasi};
use wasmtime::{AsContextMut as _, Caller, Memory, ResourceLimiter, StoreContextMut, Trap};

use crate::{
    Metering, PoolConfig, TrapKind,
    exec::platform::{EnginePlatform, ExecutionCtx},
    guest::{
        fuel::{Fuel, MeteredData, UNBILLED_FUEL},
        machine::GuestMachine,
    },
    load::parts::GuestParts,
    session::{PristineImage, bits},
};

/// The idle, restored instances of a runtime.
pub(crate) struct RecycledInstances {
    waiting: ReusePool<GuestMachine>,
    /// Maximum number of private pages to restore after a short script. Pages that were written once stay private, so
    /// they are restored again after each later script.
    max_private_pages: usize,
}

/// The multiple of [`RecycledInstances::max_private_pages`] that is still restored after a long script. This multiple
/// also bounds the private memory of an idle instance.
const MAX_TIMES: usize = 8;

impl RecycledInstances {
    /// Creates an empty collection.
    pub(crate) fn new(pool: &PoolConfig) -> Self {
        let cores = thread::available_parallelism().map_or(1, NonZero::get);
        let max_private_pages = pool.keep_resident_bytes / PAGE_BYTES;
        // Two instances per core leave room for scripts that wait without using a core. The limit bounds the memory of
        // idle instances.
        Self { waiting: ReusePool::new(2 * cores), max_private_pages }
    }

    pub(crate) fn take(&self) -> Option<GuestMachine> {
        self.waiting.take()
    }

    /// Restores an instance to its image and stores it, or drops it. `took` is the duration of its script.
    pub(crate) fn recycle(&self, mut machine: GuestMachine, pristine: &PristineImage, took: Duration) {
        if restore(&mut machine, pristine, self.max_pages(took)) {
            self.put_back(machine);
        }
    }

    /// Returns the number of pages worth restoring: one per microsecond of the script, because copying a page takes
    /// less than a microsecond. For a new instance, the system would copy these pages too, fault by fault.
    fn max_pages(&self, took: Duration) -> usize {
        let worth = usize::try_from(took.as_micros()).unwrap_or(usize::MAX);
        worth.clamp(self.max_private_pages, self.max_private_pages.saturating_mul(MAX_TIMES))
    }

    /// Stores an instance that equals its image.
    pub(crate) fn put_back(&self, machine: GuestMachine) {
        self.waiting.put_back(machine);
    }

    /// Drops all instances. Returns `true` if there were any.
    pub(crate) fn clear(&self) -> bool {
        self.waiting.take_all().count() > 0
    }

    /// Compares all idle instances with a new instance: the memory byte for byte, the named globals, and the function
    /// types in the table. Returns the number of idle instances, or a description of the first difference.
    pub(crate) fn compare(&self, new: &mut GuestMachine, globals: &[(String, u64)]) -> Result<usize, String> {
        let mut waiting: Vec<_> = self.waiting.take_all().collect();
        waiting.iter_mut().try_for_each(|machine| compare(machine, new, globals))?;
        let count = waiting.len();
        waiting.into_iter().for_each(|machine| self.put_back(machine));
        Ok(count)
    }
}

fn compare(machine: &mut GuestMachine, new: &mut GuestMachine, globals: &[(String, u64)]) -> Result<(), String> {
    if machine.memory() != new.memory() {
        let pages = |machine: &GuestMachine| machine.memory().len() / PAGE_BYTES;
        let mut both = machine.memory().chunks(PAGE_BYTES).zip(new.memory().chunks(PAGE_BYTES));
        let first = both.position(|(one, other)| one != other);
        return Err(format!(
            "expected {} pages, found {}; first different page: {first:?}",
            pages(new),
            pages(machine)
        ));
    }
    for (name, _) in globals {
        let bits = |machine: &mut GuestMachine| machine.global_value(name).as_ref().and_then(bits);
        let (found, expected) = (bits(machine), bits(new));
        if found != expected || found.is_none() {
            return Err(format!("global `{name}` is {found:?} instead of {expected:?}"));
        }
    }
    let (found, expected) = (machine.table_types(), new.table_types());
    if found != expected {
        return Err(format!("a table of {} functions instead of {}", found.len(), expected.len()));
    }
    Ok(())
}

/// Restores an instance to its image. Returns `false` if restoring failed. The instance may then be partly restored and
/// must be dropped.
fn restore(machine: &mut GuestMachine, pristine: &PristineImage, max_private_pages: usize) -> bool {
    if machine.memory_bytes() != pristine.memory_bytes() {
        return false;
    }
    let Some(pages) = machine.restore_memory(max_private_pages, |number| pristine.page(number)) else { return false };
    tracing::trace!(pages, "private pages of an instance after its script");
    for (name, value) in pristine.globals() {
        if machine.set_global_bits(name, *value).is_none() {
            return false;
        }
    }
    // Frees the host's buffers for the finished script now, not when the next script starts.
    machine.renew(GuestStoreData::new(Box::default(), u64::MAX.into(), EnginePlatform::idle())).is_ok()
}

/// Reusable objects. Each thread prefers the object that it used last.
///
/// If another processor was the last to write an object, this processor must first load each of the object's cache
/// lines. When instances moved between threads, two threads had 1.3 times the throughput of one, instead of 1.8 times.
struct ReusePool<T> {
    /// Each object with the thread that used it last, in the order in which they were returned.
    unused: Mutex<Vec<(ThreadId, T)>>,
    max_count: usize,
}

impl<T> ReusePool<T> {
    /// Creates an empty collection with room for `max_count` objects.
    pub(crate) fn new(max_count: usize) -> Self {
        Self { unused: Mutex::default(), max_count }
    }

    /// Takes the object that this thread returned last, or else the object that any thread returned last.
    pub(crate) fn take(&self) -> Option<T> {
        let mut unused = self.lock();
        let thread = thread::current().id();
        let at = unused.iter().rposition(|(user, _)| *user == thread).or(unused.len().checked_sub(1))?;
        Some(unused.remove(at).1)
    }

    /// Returns an object for reuse, or drops it if the collection is full.
    pub(crate) fn put_back(&self, used: T) {
        let mut unused = self.lock();
        if unused.len() < self.max_count {
            unused.push((thread::current().id(), used));
        } else {
            // Drop the object outside the lock.
            drop(unused);
            drop(used);
        }
    }

    fn take_all(&self) -> impl Iterator<Item = T> + use<T> {
        mem::take(&mut *self.lock()).into_iter().map(|(_, used)| used)
    }

    fn lock(&self) -> MutexGuard<'_, Vec<(ThreadId, T)>> {
        self.unused.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Maximum native stack of a guest, in bytes. A guest that exceeds it traps. Interpreters must reach their own limits
/// earlier, so that scripts receive an exception. QuickJS limits its own stack to 320 KiB and needs at most 25 times as
/// much native stack: 12 of 150 hostile scripts trap with 4 MiB, none with 8 MiB. CPython 3.15 limits its own stack to
/// 512 KiB; with 768 KiB, `json.loads` would overflow 16 MiB. CPython 3.12 does not count some recursions, and has a C
/// stack of 24 MiB. These recursions use at most as much C stack as native stack, so they trap before they overrun the
/// C stack.
pub(crate) const GUEST_STACK_BYTES: usize = 16 << 20;

/// The additional stack for host functions when the guest has used its maximum, in bytes.
const HOST_STACK_BYTES: usize = 1 << 20;

/// Maximum number of idle stacks. Pages that a deep recursion touched stay resident. A stack that a guest used
/// completely keeps 17 MiB, so idle stacks keep at most 272 MiB. Each additional concurrent guest needs a new mapping.
const IDLE_COUNT: usize = 16;

/// Reusable stacks of a known size, on which guests run.
///
/// Wasmtime counts `max_wasm_stack` from the current stack pointer and does not know the size of the thread's stack. A
/// deep recursion on a thread with a small stack would abort the host. Guests therefore never run on the caller's
/// stack, but always on one of these stacks, which end in a guard page.
pub(crate) struct StackPool(ReusePool<DefaultStack>);

impl Default for StackPool {
    fn default() -> Self {
        Self(ReusePool::new(IDLE_COUNT))
    }
}

impl StackPool {
    /// Runs `work` on a guest stack and returns its result. A panic in `work` propagates to the caller.
    pub(crate) fn run<R>(&self, work: impl FnOnce() -> R) -> io::Result<R> {
        let mut stack = match self.0.take() {
            Some(stack) => stack,
            None => DefaultStack::new(GUEST_STACK_BYTES + HOST_STACK_BYTES)?,
        };
        let result = on_stack(&mut stack, work);
        self.0.put_back(stack);
        Ok(result)
    }
}

/// Maximum total number of elements in a guest's tables. The table of CPython 3.15 has 47,157 elements, that of 3.12
/// has 5,903. Neither table grows.
pub(crate) const MAX_TABLE_ELEMENTS: usize = 1 << 16;

/// The size of Wasmtime's heap for exceptions after a guest's first exception, in bytes. The heap grows again only if
/// the exceptions in use need more than half of it.
///
/// These bytes are not charged to the script, like those of tables and stacks. If they were, only the first script in a
/// recycled instance would be charged. The memory usage would also differ from that in a provider, which cannot
/// measure its host's heap.
const EXCEPTION_HEAP_BYTES: usize = 64 << 10;

/// The state of a guest outside its WebAssembly instance.
pub(crate) struct GuestStoreData {
    pub(crate) host: GuestHost<EnginePlatform>,
    pub(crate) memory: Option<Memory>,
    pub(crate) fuel: Fuel,
    pub(crate) parts: GuestParts,
    tables: TableLimiter,
    /// `true` after the first growth of the heap for exceptions.
    has_exception_heap: bool,
}

impl GuestStoreData {
    pub(crate) fn new(wasi: Box<Wasi>, memory: MemoryLimit, ctx: ExecutionCtx) -> Self {
        let (parts, tables) = (GuestParts::default(), TableLimiter::default());
        let fuel = Fuel::new(Metering::Fuel, UNBILLED_FUEL);
        let host = GuestHost::new(wasi, memory, ctx);
        Self { host, memory: None, fuel, parts, tables, has_exception_heap: false }
    }

    /// Takes over an instance from other store data: its tables and `memory_bytes` of memory. Returns `false` if the
    /// memory exceeds this data's memory limit.
    pub(crate) fn adopt(&mut self, other: &Self, memory_bytes: u64) -> bool {
        self.tables = other.tables;
        self.has_exception_heap = other.has_exception_heap;
        self.fuel = other.fuel;
        self.parts = other.parts.clone();
        self.host.limiter.grow(0, memory_bytes, None)
    }

    /// Returns an error if a running guest must stop now. Delivers a soft stop that is due.
    pub(crate) fn check_stop(mut context: StoreContextMut<'_, Self>, fuel_left: u64) -> Result<(), Stop> {
        let (memory, state) = match context.data().memory {
            Some(memory) => memory.data_and_store_mut(&mut context),
            None => (&mut [][..], context.data_mut()),
        };
        state.host.ctx.check_stop(fuel_left, memory)
    }
}

impl MeteredData for GuestStoreData {
    fn fuel(&mut self) -> &mut Fuel {
        &mut self.fuel
    }

    fn check(caller: &mut Caller<'_, Self>, left: u64) -> Result<(), Stop> {
        Self::check_stop(caller.as_context_mut(), left)
    }
}

/// A limiter that enforces one limit on all tables of an instance.
#[derive(Clone, Copy, Default)]
struct TableLimiter {
    /// The number of elements in all tables.
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

/// A limiter that enforces the memory and table limits of stores without `GuestStoreData`.
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
        // Allow the uncharged growth only once: a custom binary can also have empty memories that grow to this size.
        let is_first = self.memory.is_some() && (current, desired) == (0, EXCEPTION_HEAP_BYTES);
        if is_first && !mem::replace(&mut self.has_exception_heap, true) {
            return Ok(true);
        }
        Ok(grow_memory(&mut self.host.limiter, current, desired, maximum))
    }

    fn table_growing(&mut self, current: usize, desired: usize, maximum: Option<usize>) -> wasmtime::Result<bool> {
        Ok(self.tables.grow(current, desired, maximum))
    }
}

fn grow_memory(limiter: &mut MemoryLimiter, current: usize, desired: usize, maximum: Option<usize>) -> bool {
    limiter.grow(current as u64, desired as u64, maximum.map(|max| max as u64))
}

/// A [`Stop`] as a Wasmtime error.
#[derive(Debug, thiserror::Error)]
#[error("the guest was unwound")]
pub(crate) struct UnwindError(pub(crate) Stop);

/// The reason why a call ended early.
#[derive(Debug)]
pub(crate) enum EarlyEnd {
    /// The host unwound the guest, or its fuel ran out.
    Stopped(Stop),
    /// A WebAssembly trap.
    Trapped(TrapKind),
}

/// Extracts the reason from Wasmtime's error.
pub(crate) fn classify(error: wasmtime::Error) -> EarlyEnd {
    let error = match error.downcast::<UnwindError>() {
        Ok(UnwindError(stop)) => return EarlyEnd::Stopped(stop),
        Err(error) => error,
    };
    EarlyEnd::Trapped(match error.downcast_ref::<Trap>() {
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
    use wasmtime::{Instance, Module, Store, TypedFunc};

    use super::*;

    #[test]
    fn page_limit_grows_with_the_run_time() {
        let all =
            RecycledInstances::new(&PoolConfig { keep_resident_bytes: 100 * PAGE_BYTES, ..PoolConfig::default() });
        for (micros, pages) in [(0, 100), (100, 100), (101, 101), (800, 800), (801, 800), (u64::MAX, 800)] {
            assert_eq!(all.max_pages(Duration::from_micros(micros)), pages, "{micros}");
        }
        let none = RecycledInstances::new(&PoolConfig { keep_resident_bytes: 0, ..PoolConfig::default() });
        assert_eq!(none.max_pages(Duration::from_secs(1)), 0);
    }

    fn on_another_thread<R: Send>(work: impl FnOnce() -> R + Send) -> R {
        thread::scope(|scope| scope.spawn(work).join().unwrap())
    }

    #[test]
    fn thread_prefers_its_last_instance() {
        let reuse = ReusePool::new(4);
        assert_eq!(reuse.take(), None);
        reuse.put_back(1);
        reuse.put_back(2);
        on_another_thread(|| reuse.put_back(3));
        assert_eq!(reuse.take(), Some(2));
        assert_eq!(reuse.take(), Some(1));
        assert_eq!(reuse.take(), Some(3));
        assert_eq!(reuse.take(), None);
        (1..=2).for_each(|each| reuse.put_back(each));
        assert_eq!(on_another_thread(|| [reuse.take(), reuse.take(), reuse.take()]), [Some(2), Some(1), None]);
    }

    #[test]
    fn pool_size_is_limited() {
        let reuse = ReusePool::new(2);
        (1..=3).for_each(|each| reuse.put_back(each));
        assert_eq!(reuse.take_all().collect::<Vec<_>>(), [1, 2]);
        assert_eq!(reuse.take(), None);
    }

    #[test]
    fn memory_growth_stops_at_the_limit() {
        let mut limiter = GuestLimiter::new(MemoryLimiter::new(100, 30));
        assert!(limiter.memory_growing(0, 70, None).unwrap(), "at");
        assert!(!limiter.memory_growing(70, 71, None).unwrap(), "over");
        assert_eq!(limiter.memory.refused_bytes(), Some(101));
    }

    #[test]
    fn exceptions_are_not_charged_to_the_guest() {
        const MODULE: &str = r#"(module
            (memory (export "memory") 1) (memory $empty 0) (tag $tag)
            (func (export "throw") (block $caught (try_table (catch $tag $caught) (throw $tag))))
            (func (export "grow") (result i32) (memory.grow $empty (i32.const 1))))"#;
        let engine = crate::config::wasmtime_engine(None, Metering::Fuel).unwrap();
        let module = Module::new(&engine, wat::parse_str(MODULE).unwrap()).unwrap();
        let state = GuestStoreData::new(Box::default(), MemoryLimit::from(1 << 20), EnginePlatform::idle());
        let mut store = Store::new(&engine, state);
        store.limiter(|state| state);
        let instance = Instance::new(&mut store, &module, &[]).unwrap();
        store.data_mut().memory = instance.get_memory(&mut store, "memory");
        let throw: TypedFunc<(), ()> = instance.get_typed_func(&mut store, "throw").unwrap();
        let grow: TypedFunc<(), i32> = instance.get_typed_func(&mut store, "grow").unwrap();
        let used_bytes = store.data().host.limiter.used_bytes();
        for _ in 0..10_000 {
            throw.call(&mut store, ()).unwrap();
        }
        assert!(store.data().has_exception_heap);
        assert_eq!(store.data().host.limiter.used_bytes(), used_bytes);
        assert_eq!(grow.call(&mut store, ()).unwrap(), 0);
        assert_eq!(store.data().host.limiter.used_bytes(), used_bytes + (64 << 10), "a second memory is charged");
    }

    #[test]
    fn table_growth_is_limited() {
        let mut limiter = GuestLimiter::new(MemoryLimiter::default());
        assert!(!limiter.table_growing(0, MAX_TABLE_ELEMENTS + 1, None).unwrap(), "over");
        assert!(limiter.table_growing(0, MAX_TABLE_ELEMENTS, None).unwrap(), "at");
        assert!(!limiter.table_growing(0, 1, None).unwrap(), "all tables share one limit");
    }

    #[test]
    fn each_guest_ending_is_distinguished() {
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
            assert!(matches!(classify(trap.into()), EarlyEnd::Trapped(got) if got == kind), "{trap:?}");
        }
        let exit = wasmtime::Error::new(UnwindError(Stop::Exit(3)));
        assert!(matches!(classify(exit), EarlyEnd::Stopped(Stop::Exit(3))));
        let host = wasmtime::Error::msg("all fuel consumed by WebAssembly");
        assert!(matches!(classify(host), EarlyEnd::Trapped(TrapKind::Other)), "the message is not parsed");
    }
}
