//! [`GuestMachine`]: a guest in the woven module, with bounds-checked access to its memory. Implements the drivers'
//! [`Machine`].

use std::{fmt, rc::Rc};

use glovebox_core::{GuestHost, Limits, LinearMemory, MemoryLimit, TrapKind, session::Pages};
use glovebox_interpreters::{Callee, Machine, MachineError, Value};
use glovebox_wasi::{Fault, Host, Stop, Wasi};

use crate::{
    CallOutcome, ComponentPlatform, ExecutionCtx, Guests, HostState, ImageRuns, Runtime, UnwindReason,
    bindings::types::SandboxError, running_guest, session::ResidentMemory,
};

/// Maximum number of arguments to a function that drivers call.
const MAX_ARGS: usize = 8;

/// An instance of a runtime's image, with the host's state for it.
#[derive(Debug)]
pub struct GuestMachine {
    runtime: Rc<Runtime>,
    memory: GuestMemory,
    /// The host's state for the guest.
    pub state: Box<HostState>,
    /// The memory of a session's guest, which can be evicted; `None` for a one-shot guest.
    pub(crate) resident: Option<ResidentMemory>,
}

impl GuestMachine {
    /// Creates a guest of `runtime` in `memory`.
    #[must_use]
    pub fn new(runtime: Rc<Runtime>, memory: GuestMemory, state: HostState) -> Self {
        Self { runtime, memory, state: Box::new(state), resident: None }
    }

    /// Returns the guest's memory.
    #[must_use]
    pub fn memory(&self) -> &GuestMemory {
        &self.memory
    }

    /// Turns the guest into a session's guest. A saved guest page that equals a page in `pages` shares that page's
    /// storage. `is_known` is `true` if `pages` contains exactly the guest's private pages.
    pub(crate) fn make_resident(&mut self, pages: Pages, is_known: bool) {
        self.resident = Some(ResidentMemory::new(&self.memory, &self.runtime, pages, is_known));
    }

    /// Returns the reason why the guest was unwound.
    fn stop_of(&mut self, why: UnwindReason) -> Stop {
        let kind = match why {
            UnwindReason::Requested => match self.state.stop.take() {
                Some(stop) => return stop,
                None => TrapKind::Other,
            },
            UnwindReason::Unreachable => TrapKind::Unreachable,
            UnwindReason::CallDepth => TrapKind::StackOverflow,
            UnwindReason::Thrown => TrapKind::Other,
        };
        self.state.host.trapped = Some(kind);
        Stop::Trap(format!("{kind:?}"))
    }

    /// Returns the number of the global that the driver calls `name`.
    fn global_number(&self, name: &str) -> Result<u32, MachineError> {
        let number = self.runtime.global(name).and_then(|number| u32::try_from(number).ok());
        number.ok_or_else(|| MachineError::Missing(name.to_owned()))
    }
}

impl Machine for GuestMachine {
    fn call(&mut self, callee: Callee<'_>, args: &[Value]) -> Result<Option<Value>, MachineError> {
        let wrong = || MachineError::Missing(format!("{callee:?}"));
        let mut words = [0; MAX_ARGS];
        let words = words.get_mut(..args.len()).ok_or_else(wrong)?;
        for (word, arg) in words.iter_mut().zip(args) {
            *word = match *arg {
                Value::I32(bits) => u64::from(bits),
                Value::I64(bits) => bits,
            };
        }
        let export = match callee {
            Callee::Export(name) => Some(self.runtime.export(name).ok_or_else(wrong)?),
            Callee::Table(_) => None,
        };
        let (guests, number) = (self.memory.guests(), self.memory.number());
        let called = running_guest::enter(&self.memory, &mut self.state, || match (export, callee) {
            (Some(export), _) => guests.call_export(number, export, words),
            (None, Callee::Table(slot)) => guests.call_table(number, slot, words),
            (None, Callee::Export(_)) => CallOutcome::Missing,
        });
        match called {
            CallOutcome::Nothing => Ok(None),
            CallOutcome::I32(bits) => Ok(Some(Value::I32(bits))),
            CallOutcome::I64(bits) => Ok(Some(Value::I64(bits))),
            CallOutcome::Unwound(why) => Err(MachineError::Stopped(self.stop_of(why))),
            CallOutcome::Missing => Err(wrong()),
        }
    }

    fn read(&mut self, at: u32, into: &mut [u8]) -> Result<(), MachineError> {
        self.memory.read(at, into).map_err(|Fault| MachineError::OutOfBounds(at))
    }

    fn write(&mut self, at: u32, from: &[u8]) -> Result<(), MachineError> {
        self.memory.write(at, from).map_err(|Fault| MachineError::OutOfBounds(at))
    }

    fn memory_bytes(&mut self) -> u64 {
        self.resident.as_ref().map_or_else(|| self.memory.bytes(), ResidentMemory::bytes)
    }

    fn grow(&mut self, pages: u32) -> Result<u32, MachineError> {
        let old = self.state.grow(&self.memory, pages);
        old.ok_or(MachineError::CannotGrow { pages })
    }

    fn set_global(&mut self, name: &str, value: u32) -> Result<(), MachineError> {
        let global = self.global_number(name)?;
        self.memory.guests().global_set(self.memory.number(), global, u64::from(value));
        Ok(())
    }

    fn global(&mut self, name: &str) -> Result<u32, MachineError> {
        let global = self.global_number(name)?;
        let bits = self.memory.guests().global_get(self.memory.number(), global);
        // An `i32` occupies the lower half of the 64 bits.
        u32::try_from(bits & u64::from(u32::MAX)).map_err(|_| MachineError::Missing(name.to_owned()))
    }

    fn with_wasi(
        &mut self,
        work: &mut dyn FnMut(&mut Wasi, &mut dyn Host) -> Result<(), Stop>,
    ) -> Result<(), MachineError> {
        Ok(self.state.with_wasi(&mut self.memory, |wasi, host| work(wasi, host))?)
    }

    fn wasi(&mut self) -> &mut Wasi {
        &mut self.state.host.wasi
    }
}

impl glovebox_core::GuestMachine for GuestMachine {
    type Platform = ComponentPlatform;

    fn fuel(&mut self) -> u64 {
        self.state.fuel(&self.memory)
    }

    fn set_fuel(&mut self, fuel: u64) -> Result<(), MachineError> {
        self.state.set_fuel(&self.memory, fuel);
        Ok(())
    }

    fn host(&self) -> &GuestHost<ComponentPlatform> {
        &self.state.host
    }

    fn host_mut(&mut self) -> &mut GuestHost<ComponentPlatform> {
        &mut self.state.host
    }
}

/// A guest of the woven module. A runtime's memory contains one guest at a time.
pub type Guest = glovebox_core::Guest<GuestMachine>;

/// Fuel for work that is not charged to a script, such as reseeding.
const UNBILLED_FUEL: u64 = u64::MAX;

/// Creates a guest from the image, in the runtime's memory. Destroys a one-shot guest that is in the memory, and
/// evicts a session's guest. Fails if the image does not fit into the memory limit, or if the session's guest cannot
/// be evicted.
pub(crate) fn instantiate(
    runtime: &Rc<Runtime>,
    guests: &Rc<dyn Guests>,
    limits: &Limits,
    wasi: Wasi,
    ctx: ExecutionCtx,
) -> Result<Guest, SandboxError> {
    let limit = MemoryLimit::of_image(limits.memory_bytes, runtime.memory_bytes());
    let mut state = HostState::new(wasi, limit, ctx);
    if !state.host.limiter.grow(0, runtime.memory_bytes(), None) {
        return Err(SandboxError::Unavailable(format!(
            "`limits.memory-bytes` is too small to start `{}`; raise it",
            runtime.name
        )));
    }
    runtime.residence.evict()?;
    let memory = GuestMemory::new(Rc::clone(guests), runtime.number);
    memory.reset(runtime.memory_pages, &runtime.image);
    state.set_fuel(&memory, UNBILLED_FUEL);
    runtime.reset_globals(memory.guests());
    Ok(Guest::new(GuestMachine::new(Rc::clone(runtime), memory, state), limits))
}

/// The size of a WebAssembly page in bytes.
pub(crate) const PAGE_BYTES: u64 = 1 << 16;

/// The maximum number of pages in a memory with 32-bit addresses.
pub(crate) const MAX_PAGES: u32 = 1 << 16;

/// A guest's memory, with the virtual size that the guest sees.
#[derive(Clone)]
pub struct GuestMemory {
    guests: Rc<dyn Guests>,
    number: u32,
}

impl fmt::Debug for GuestMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GuestMemory")
            .field("number", &self.number)
            .field("pages", &self.pages())
            .finish_non_exhaustive()
    }
}

impl GuestMemory {
    /// Creates the memory of the guest with this number.
    #[must_use]
    pub fn new(guests: Rc<dyn Guests>, number: u32) -> Self {
        Self { guests, number }
    }

    /// Returns the woven module.
    #[must_use]
    pub fn guests(&self) -> &dyn Guests {
        &*self.guests
    }

    /// Returns the guest's number in the woven module.
    #[must_use]
    pub fn number(&self) -> u32 {
        self.number
    }

    /// Returns the virtual size, in pages.
    #[must_use]
    pub fn pages(&self) -> u32 {
        self.guests.virtual_size(self.number)
    }

    /// Returns the virtual size, in bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        u64::from(self.pages()) * PAGE_BYTES
    }

    /// Checks that a range is within the virtual size.
    fn check(&self, at: u32, len: usize) -> Result<(), Fault> {
        let end = u64::from(at).checked_add(len as u64).ok_or(Fault)?;
        if end > self.bytes() { Err(Fault) } else { Ok(()) }
    }

    /// Reads `into.len()` bytes at `at`. Fails if the range exceeds the virtual size.
    pub fn read(&self, at: u32, into: &mut [u8]) -> Result<(), Fault> {
        self.check(at, into.len())?;
        self.guests.memory_read(self.number, at, into);
        Ok(())
    }

    /// Writes all of `from` at `at`. Fails if the range exceeds the virtual size.
    pub fn write(&self, at: u32, from: &[u8]) -> Result<(), Fault> {
        self.check(at, from.len())?;
        self.guests.memory_write(self.number, at, from);
        Ok(())
    }

    /// Grows the virtual size by `pages`, and the real memory if necessary. Returns `false` if the memory cannot grow.
    /// The new bytes are zero, unless this guest itself has written beyond its virtual size.
    #[must_use]
    pub fn grow(&self, pages: u32) -> bool {
        let Some(wanted) = self.pages().checked_add(pages).filter(|wanted| *wanted <= MAX_PAGES) else {
            return false;
        };
        let missing = wanted.saturating_sub(self.guests.memory_size(self.number));
        if missing > 0 && !self.guests.memory_grow(self.number, missing) {
            return false;
        }
        self.guests.set_virtual_size(self.number, wanted);
        true
    }

    /// Zeroes the memory from `at` to the end of the real memory. Guest code can access all real memory, even beyond
    /// the virtual size.
    pub fn clear_from(&self, at: u64) {
        let end = u64::from(self.guests.memory_size(self.number)) * PAGE_BYTES;
        self.clear(at, end);
    }

    /// Zeroes a range of the real memory.
    fn clear(&self, from: u64, to: u64) {
        let mut at = from;
        while at < to {
            // Fill the range in chunks, because the length of a 4 GiB range does not fit into 32 bits.
            let len = (to - at).min(1 << 30);
            if let (Ok(at), Ok(len)) = (u32::try_from(at), u32::try_from(len)) {
                self.guests.memory_fill(self.number, at, 0, len);
            }
            at += len;
        }
    }

    /// Resets the memory to an image: `pages` of virtual size, the image's runs, and zeros everywhere else up to the
    /// end of the real memory.
    pub fn reset(&self, pages: u32, image: &ImageRuns) {
        let mut at = 0;
        for run in image.all() {
            self.clear(at, u64::from(run.start));
            self.guests.image_to_guest(self.number, run.offset, run.start, run.length);
            at = run.end();
        }
        self.clear_from(at);
        self.guests.set_virtual_size(self.number, pages);
    }
}

impl LinearMemory for GuestMemory {
    fn bytes(&self) -> u64 {
        self.bytes()
    }

    fn read(&self, at: u32, into: &mut [u8]) -> Result<(), Fault> {
        self.read(at, into)
    }

    fn write(&mut self, at: u32, from: &[u8]) -> Result<(), Fault> {
        GuestMemory::write(self, at, from)
    }
}
