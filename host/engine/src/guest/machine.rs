//! Implements [`Machine`], the driver's view of a guest, for a Wasmtime instance.

use std::{collections::HashMap, sync::Arc};

use glovebox_core::{
    GuestHost,
    session::{PAGE_BYTES, Page, Pages},
};
use glovebox_interpreters::{Callee, Machine, MachineError, Value};
use glovebox_wasi::{Host, Stop, Wasi};
use wasmtime::{Extern, Global, Instance, Memory, Ref, Store, Table, Val};

use crate::{
    exec::platform::EnginePlatform,
    guest::{
        fuel::{self, Fuel},
        function::Function,
        instantiate::with_wasi,
        private_pages::PrivatePages,
        recycled::{EarlyEnd, GuestStoreData, classify},
    },
};

/// The export name of the function table in a prepared module.
pub(crate) const TABLE: &str = "__table";

/// Maximum number of cached table functions. Drivers call two or three functions, but the guest can replace them.
const MAX_CALLED: usize = 16;

pub(crate) struct GuestMachine {
    pub(crate) store: Store<GuestStoreData>,
    instance: Instance,
    memory: Memory,
    table: Option<Table>,
    /// Exports that a driver has looked up.
    exports: HashMap<Box<str>, Export>,
    /// Table functions that a driver has called, by the address of the function reference.
    called: HashMap<usize, Arc<Function>>,
    /// The private pages of `memory`.
    private_pages: PrivatePages,
}

/// Exports that drivers use.
#[derive(Clone)]
enum Export {
    Function(Arc<Function>),
    Global(Global),
}

impl GuestMachine {
    /// Wraps an instance. Returns `None` if it does not export the memory that WASI requires.
    pub(crate) fn new(mut store: Store<GuestStoreData>, instance: Instance) -> Option<Self> {
        let memory = instance.get_memory(&mut store, "memory")?;
        let table = instance.get_table(&mut store, TABLE);
        fuel::attach(&mut store, &instance);
        store.data_mut().memory = Some(memory);
        let (exports, called) = (HashMap::new(), HashMap::new());
        Some(Self { store, instance, memory, table, exports, called, private_pages: PrivatePages::default() })
    }

    /// Returns the export `name` and caches it.
    fn export(&mut self, name: &str) -> Result<Export, MachineError> {
        if let Some(found) = self.exports.get(name) {
            return Ok(found.clone());
        }
        let missing = || MachineError::Missing(name.to_owned());
        let found = match self.instance.get_export(&mut self.store, name).ok_or_else(missing)? {
            Extern::Func(function) => Export::Function(Arc::new(Function::new(function, &self.store))),
            Extern::Global(global) => Export::Global(global),
            _ => return Err(missing()),
        };
        self.exports.insert(name.into(), found.clone());
        Ok(found)
    }

    fn exported_global(&mut self, name: &str) -> Option<Global> {
        match self.export(name) {
            Ok(Export::Global(global)) => Some(global),
            _ => None,
        }
    }

    fn function(&mut self, callee: Callee<'_>) -> Result<Arc<Function>, MachineError> {
        let missing = || match callee {
            Callee::Export(name) => MachineError::Missing(name.to_owned()),
            Callee::Table(slot) => MachineError::Missing(format!("{TABLE}[{slot}]")),
        };
        match callee {
            Callee::Export(name) => match self.export(name)? {
                Export::Function(function) => Ok(function),
                Export::Global(_) => Err(missing()),
            },
            Callee::Table(slot) => {
                let found = self.table.and_then(|table| table.get(&mut self.store, u64::from(slot)));
                let Some(Ref::Func(Some(function))) = found else { return Err(missing()) };
                // The guest may have replaced the function in this slot.
                let address = function.to_raw(&mut self.store).addr();
                if self.called.len() == MAX_CALLED && !self.called.contains_key(&address) {
                    self.called.clear();
                }
                let made = || Arc::new(Function::new(function, &self.store));
                Ok(Arc::clone(self.called.entry(address).or_insert_with(made)))
            }
        }
    }

    /// Returns the whole linear memory.
    pub(crate) fn memory(&self) -> &[u8] {
        self.memory.data(&self.store)
    }

    /// Returns the whole linear memory for writing.
    fn memory_mut(&mut self) -> &mut [u8] {
        self.private_pages.before_write();
        self.memory.data_mut(&mut self.store)
    }

    /// Returns the numbers of the pages that may differ from the image, in ascending order. Returns `None` if the
    /// system does not expose private pages.
    pub(crate) fn private_pages(&mut self) -> Option<&[u32]> {
        self.private_pages.scan(self.memory.data(&self.store))
    }

    /// Restores the memory from its image, page by page. `original` returns a page of the image. Returns the number of
    /// pages copied.
    ///
    /// Returns `None` if the system does not expose the private pages, or if there are more than `max` of them. Also
    /// returns `None` if a private page lies outside the image. The memory may then be partly restored.
    pub(crate) fn restore_memory<'a>(
        &mut self,
        max: usize,
        original: impl Fn(u32) -> Option<&'a Page>,
    ) -> Option<usize> {
        let numbers = self.private_pages.scan(self.memory.data(&self.store)).filter(|numbers| numbers.len() <= max)?;
        // These pages are already private, so `before_write` is not needed.
        let memory = self.memory.data_mut(&mut self.store).as_chunks_mut::<PAGE_BYTES>().0;
        for number in numbers {
            *memory.get_mut(*number as usize)? = *original(*number)?;
        }
        Some(numbers.len())
    }

    /// Replaces the store data of an instance that is otherwise in its initial state. Returns `state` if its memory
    /// limit is lower than the size of the instance's memory.
    pub(crate) fn renew(&mut self, mut state: GuestStoreData) -> Result<(), Box<GuestStoreData>> {
        let bytes = self.memory.data_size(&self.store) as u64;
        if !state.adopt(self.store.data(), bytes) {
            return Err(Box::new(state));
        }
        state.memory = Some(self.memory);
        *self.store.data_mut() = state;
        Ok(())
    }

    /// Sets an exported global from bits as encoded by [`bits`](crate::session::bits). Returns `None` if the global is
    /// missing or cannot be set.
    pub(crate) fn set_global_bits(&mut self, name: &str, bits: u64) -> Option<()> {
        let global = self.exported_global(name)?;
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

    /// Returns the type of each function in the table as text, and `None` for each empty element.
    pub(crate) fn table_types(&mut self) -> Vec<Option<String>> {
        let Some(table) = self.table else { return Vec::new() };
        let count = table.size(&self.store);
        let kind = |slot| match table.get(&mut self.store, slot) {
            Some(Ref::Func(Some(function))) => Some(function.ty(&self.store).to_string()),
            _ => None,
        };
        (0..count).map(kind).collect()
    }

    /// Returns an exported global's value.
    pub(crate) fn global_value(&mut self, name: &str) -> Option<Val> {
        let global = self.exported_global(name)?;
        Some(global.get(&mut self.store))
    }
}

/// Converts an error from setting the counter. The error cannot occur, because the counter is a mutable `i64` global.
fn unset(error: wasmtime::Error) -> MachineError {
    MachineError::Missing(format!("fuel: {error}"))
}

impl Machine for GuestMachine {
    fn call(&mut self, callee: Callee<'_>, args: &[Value]) -> Result<Option<Value>, MachineError> {
        let function = self.function(callee)?;
        self.private_pages.before_write();
        let returned =
            function.call(&mut self.store, args).ok_or_else(|| MachineError::Missing(format!("{callee:?}")))?;
        returned.map_err(|error| match classify(error) {
            EarlyEnd::Stopped(stop) => MachineError::Stopped(stop),
            EarlyEnd::Trapped(kind) => {
                self.store.data_mut().host.trapped = Some(kind);
                MachineError::Stopped(Stop::Trap(format!("{kind:?}")))
            }
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
        old.ok().and_then(|old_pages| u32::try_from(old_pages).ok()).ok_or(MachineError::CannotGrow { pages })
    }

    fn set_global(&mut self, name: &str, value: u32) -> Result<(), MachineError> {
        self.exported_global(name)
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
        Ok(done.map_err(unset)??)
    }

    fn wasi(&mut self) -> &mut Wasi {
        &mut self.store.data_mut().host.wasi
    }
}

impl glovebox_core::GuestMachine for GuestMachine {
    type Platform = EnginePlatform;

    fn fuel(&mut self) -> u64 {
        match self.store.data().fuel {
            Fuel::Uncounted(given) => given,
            Fuel::Counted { .. } => fuel::left(&mut self.store),
        }
    }

    fn set_fuel(&mut self, fuel: u64) -> Result<(), MachineError> {
        if let Fuel::Uncounted(_) = self.store.data().fuel {
            self.store.set_epoch_deadline(1);
        }
        fuel::set(&mut self.store, fuel).map_err(unset)
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

#[cfg(test)]
mod tests {
    use glovebox_core::MemoryLimit;
    use wasmtime::{Engine, Module};

    use super::*;

    fn machine(text: &str) -> GuestMachine {
        let engine = Engine::default();
        let module = Module::new(&engine, wat::parse_str(text).unwrap()).unwrap();
        let state = GuestStoreData::new(Box::default(), MemoryLimit::from(u64::MAX), EnginePlatform::idle());
        let mut store = Store::new(&engine, state);
        let instance = Instance::new(&mut store, &module, &[]).unwrap();
        GuestMachine::new(store, instance).unwrap()
    }

    #[test]
    fn functions_accept_and_return_their_types() {
        let mut machine = machine(
            r#"(module (memory (export "memory") 1)
                (func (export "nothing"))
                (func (export "less") (param i32 i32) (result i32) (i32.sub (local.get 0) (local.get 1)))
                (func (export "shifted") (param i32 i64) (result i64) (i64.shl (local.get 1) (i64.extend_i32_u (local.get 0))))
                (func (export "sixth") (param i64 i64 i64 i64 i64 i32) (result i32) (local.get 5))
                (func (export "float") (param f32))
                (func (export "two") (result i32 i32) (i32.const 1) (i32.const 2)))"#,
        );
        let mut call = |name, args: &[Value]| machine.call(Callee::Export(name), args);
        for _ in 0..2 {
            assert_eq!(call("nothing", &[]).unwrap(), None);
            assert_eq!(call("less", &[Value::I32(3), Value::I32(4)]).unwrap(), Some(Value::I32(u32::MAX)));
            assert_eq!(call("shifted", &[Value::I32(63), Value::I64(1)]).unwrap(), Some(Value::I64(1 << 63)));
            let six = [[Value::I64(0); 5].as_slice(), &[Value::I32(6)]].concat();
            assert_eq!(call("sixth", &six).unwrap(), Some(Value::I32(6)));
            for (name, args) in [
                ("nothing", &[Value::I32(0)][..]),
                ("less", &[Value::I32(3)]),
                ("less", &[Value::I32(3), Value::I64(4)]),
                ("sixth", &six[1..]),
                ("sixth", &[Value::I32(0); 6]),
                ("float", &[Value::I32(0)]),
                ("two", &[]),
                ("memory", &[]),
                ("none", &[]),
            ] {
                let error = call(name, args).unwrap_err();
                assert!(matches!(&error, MachineError::Missing(missing) if missing.contains(name)), "{name}: {error}");
            }
        }
    }

    #[test]
    fn replaced_table_function_is_called() {
        let mut machine = machine(
            r#"(module (memory (export "memory") 1) (table (export "__table") 2 funcref) (elem (i32.const 0) $one $two)
                (func $one (result i32) (i32.const 1))
                (func $two (result i32) (i32.const 2))
                (func (export "swap") (table.set (i32.const 0) (table.get (i32.const 1)))))"#,
        );
        let first = |machine: &mut GuestMachine| machine.call(Callee::Table(0), &[]).unwrap();
        assert_eq!(first(&mut machine), Some(Value::I32(1)));
        machine.call(Callee::Export("swap"), &[]).unwrap();
        assert_eq!(first(&mut machine), Some(Value::I32(2)));
        assert!(matches!(machine.call(Callee::Table(2), &[]), Err(MachineError::Missing(_))));
    }

    #[test]
    fn function_cache_is_bounded() {
        let count = MAX_CALLED + 1;
        let functions: String = (0..count).map(|at| format!("(func $f{at} (result i32) (i32.const {at}))")).collect();
        let names: String = (0..count).map(|at| format!(" $f{at}")).collect();
        let mut machine = machine(&format!(
            r#"(module (memory (export "memory") 1) (table (export "__table") {count} funcref) (elem (i32.const 0){names}) {functions})"#
        ));
        for (slot, held) in (0..count).map(|at| (u32::try_from(at).unwrap(), at % MAX_CALLED + 1)) {
            for _ in 0..2 {
                assert_eq!(machine.call(Callee::Table(slot), &[]).unwrap(), Some(Value::I32(slot)));
                assert_eq!(machine.called.len(), held, "{slot}");
            }
        }
    }
}
