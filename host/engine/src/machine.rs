//! A guest instance as its driver sees it: [`Machine`] over Wasmtime.

use glovebox_core::{
    GuestHost,
    session::{PAGE_BYTES, Page, Pages},
};
use glovebox_interpreters::{Callee, Machine, MachineError, Value};
use glovebox_wasi::{Host, Stop, Wasi};
use wasmtime::{Func, Instance, Memory, Ref, Store, Table, Val};

use crate::{
    imports::with_wasi,
    platform::EnginePlatform,
    private_pages::PrivatePages,
    state::State,
    trap::{Ended, classify},
};

/// The export name of the function table in a prepared module.
const TABLE: &str = "__table";

/// A guest, and how its last call ended.
pub(crate) struct GuestMachine {
    pub(crate) store: Store<State>,
    instance: Instance,
    memory: Memory,
    table: Option<Table>,
    /// Those of the memory.
    private_pages: PrivatePages,
}

impl GuestMachine {
    /// Wraps an instance; `None` when it exports no memory, which WASI demands of every program.
    pub(crate) fn new(mut store: Store<State>, instance: Instance) -> Option<Self> {
        let memory = instance.get_memory(&mut store, "memory")?;
        let table = instance.get_table(&mut store, TABLE);
        store.data_mut().memory = Some(memory);
        Some(Self { store, instance, memory, table, private_pages: PrivatePages::default() })
    }

    fn function(&mut self, callee: Callee<'_>) -> Result<Func, MachineError> {
        match callee {
            Callee::Export(name) => {
                self.instance.get_func(&mut self.store, name).ok_or_else(|| MachineError::Missing(name.to_owned()))
            }
            Callee::Table(slot) => match self.table.and_then(|table| table.get(&mut self.store, u64::from(slot))) {
                Some(Ref::Func(Some(function))) => Ok(function),
                _ => Err(MachineError::Missing(format!("{TABLE}[{slot}]"))),
            },
        }
    }

    /// The whole linear memory.
    pub(crate) fn memory(&self) -> &[u8] {
        self.memory.data(&self.store)
    }

    /// The whole linear memory, to write to.
    fn memory_mut(&mut self) -> &mut [u8] {
        self.private_pages.before_write();
        self.memory.data_mut(&mut self.store)
    }

    /// The pages of the memory that may differ from the image's, by their number and in order; `None` where the system does not tell.
    pub(crate) fn private_pages(&mut self) -> Option<&[u32]> {
        self.private_pages.look(self.memory.data(&self.store))
    }

    /// Restores the memory from its image, which `original` gives page by page. Returns the number of pages copied, or `None` where that cannot
    /// be done or takes more than `max` pages: then the memory may be partly restored.
    pub(crate) fn restore_memory<'a>(
        &mut self,
        max: usize,
        original: impl Fn(u32) -> Option<&'a Page>,
    ) -> Option<usize> {
        let numbers = self.private_pages.look(self.memory.data(&self.store)).filter(|numbers| numbers.len() <= max)?;
        // Not announced: these pages are private already.
        let memory = self.memory.data_mut(&mut self.store).as_chunks_mut::<PAGE_BYTES>().0;
        for number in numbers {
            *memory.get_mut(*number as usize)? = *original(*number)?;
        }
        Some(numbers.len())
    }

    /// Gives the instance another state; in every other respect it is as new. Returns the state if its limit on memory does not
    /// allow the instance's initial memory.
    pub(crate) fn renew(&mut self, mut state: State) -> Result<(), Box<State>> {
        let bytes = self.memory.data_size(&self.store) as u64;
        if !state.adopt(self.store.data(), bytes) {
            return Err(Box::new(state));
        }
        state.memory = Some(self.memory);
        *self.store.data_mut() = state;
        Ok(())
    }

    /// Sets an exported global from its bits, as [`bits`](crate::session::bits) gives them.
    pub(crate) fn set_global_bits(&mut self, name: &str, bits: u64) -> Option<()> {
        let global = self.instance.get_global(&mut self.store, name)?;
        let low = u32::try_from(bits & u64::from(u32::MAX)).ok()?;
        let value = match global.get(&mut self.store) {
            Val::I32(_) => Val::I32(low.cast_signed()),
            Val::I64(_) => Val::I64(bits.cast_signed()),
            Val::F32(_) => Val::F32(low),
            Val::F64(_) => Val::F64(bits),
            _ => return None,
        };
        global.set(&mut self.store, value).ok()
    }

    /// What each element of the table is: the type of a function as text, or nothing.
    pub(crate) fn table_types(&mut self) -> Vec<Option<String>> {
        let Some(table) = self.table else { return Vec::new() };
        let count = table.size(&self.store);
        let kind = |slot| match table.get(&mut self.store, slot) {
            Some(Ref::Func(Some(function))) => Some(function.ty(&self.store).to_string()),
            _ => None,
        };
        (0..count).map(kind).collect()
    }

    /// The bits of an exported global.
    pub(crate) fn global_value(&mut self, name: &str) -> Option<Val> {
        let global = self.instance.get_global(&mut self.store, name)?;
        Some(global.get(&mut self.store))
    }
}

/// An error that cannot happen: without metering nothing asks Wasmtime for fuel.
fn unmetered(error: wasmtime::Error) -> MachineError {
    MachineError::Missing(format!("fuel: {error}"))
}

impl Machine for GuestMachine {
    fn call(&mut self, callee: Callee<'_>, args: &[Value]) -> Result<Option<Value>, MachineError> {
        let function = self.function(callee)?;
        self.private_pages.before_write();
        let wrong = || MachineError::Missing(format!("{callee:?}"));
        // The C functions that drivers call take a handful of arguments.
        let mut params = [const { Val::I32(0) }; 8];
        let params = params.get_mut(..args.len()).ok_or_else(wrong)?;
        for (param, arg) in params.iter_mut().zip(args) {
            *param = match *arg {
                Value::I32(bits) => Val::I32(bits.cast_signed()),
                Value::I64(bits) => Val::I64(bits.cast_signed()),
            };
        }
        let count = function.ty(&self.store).results().len();
        let mut results = [const { Val::I32(0) }; 1];
        let results = results.get_mut(..count).ok_or_else(wrong)?;
        if let Err(error) = function.call(&mut self.store, params, results) {
            return Err(MachineError::Stopped(match classify(error) {
                Ended::Stopped(stop) => stop,
                Ended::Trapped(kind) => {
                    self.store.data_mut().host.trapped = Some(kind);
                    Stop::Trap(format!("{kind:?}"))
                }
            }));
        }
        Ok(match results.first() {
            Some(Val::I32(value)) => Some(Value::I32(value.cast_unsigned())),
            Some(Val::I64(value)) => Some(Value::I64(value.cast_unsigned())),
            _ => None,
        })
    }

    fn read(&mut self, at: u32, into: &mut [u8]) -> Result<(), MachineError> {
        self.memory.read(&self.store, at as usize, into).map_err(|_| MachineError::OutOfBounds(at))
    }

    fn write(&mut self, at: u32, from: &[u8]) -> Result<(), MachineError> {
        self.private_pages.before_write();
        self.memory.write(&mut self.store, at as usize, from).map_err(|_| MachineError::OutOfBounds(at))
    }

    fn memory_bytes(&mut self) -> u64 {
        self.memory.data_size(&self.store) as u64
    }

    fn grow(&mut self, pages: u32) -> Result<u32, MachineError> {
        let old = self.memory.grow(&mut self.store, u64::from(pages));
        let missing = || MachineError::Missing(format!("memory of {pages} pages more"));
        u32::try_from(old.map_err(|_| missing())?).map_err(|_| missing())
    }

    fn set_global(&mut self, name: &str, value: u32) -> Result<(), MachineError> {
        self.instance
            .get_global(&mut self.store, name)
            .and_then(|global| global.set(&mut self.store, Val::I32(value.cast_signed())).ok())
            .ok_or_else(|| MachineError::Missing(name.to_owned()))
    }

    fn global(&mut self, name: &str) -> Result<u32, MachineError> {
        match self.global_value(name) {
            Some(Val::I32(value)) => Ok(value.cast_unsigned()),
            _ => Err(MachineError::Missing(name.to_owned())),
        }
    }

    fn with_wasi(
        &mut self,
        work: &mut dyn FnMut(&mut Wasi, &mut dyn Host) -> Result<(), Stop>,
    ) -> Result<(), MachineError> {
        self.private_pages.before_write();
        let done = with_wasi(&mut self.store, Some(self.memory), |wasi, host| work(wasi, host));
        Ok(done.map_err(unmetered)??)
    }

    fn wasi(&mut self) -> &mut Wasi {
        &mut self.store.data_mut().host.wasi
    }
}

impl glovebox_core::GuestMachine for GuestMachine {
    type Platform = EnginePlatform;

    fn fuel(&self) -> u64 {
        self.store.data().uncounted.unwrap_or_else(|| self.store.get_fuel().unwrap_or(0))
    }

    fn set_fuel(&mut self, fuel: u64) -> Result<(), MachineError> {
        match &mut self.store.data_mut().uncounted {
            Some(given) => *given = fuel,
            None => self.store.set_fuel(fuel).map_err(unmetered)?,
        }
        self.store.set_epoch_deadline(1);
        Ok(())
    }

    fn write_pages(&mut self, pages: &Pages) -> bool {
        pages.write_to(self.memory_mut())
    }

    fn host(&self) -> &GuestHost<EnginePlatform> {
        &self.store.data().host
    }

    fn host_mut(&mut self) -> &mut GuestHost<EnginePlatform> {
        &mut self.store.data_mut().host
    }
}
