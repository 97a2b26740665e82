//! A component that a test controls: it calls any function of `glovebox:sandbox` with arbitrary bits as arguments.
//!
//! Tests describe calls in JSON ([`Puppet::call`]). They can describe calls that no ordinary language can make: forged
//! handles, lists that are not backed by memory, and memory returned out of bounds.

mod codec;
mod module;

use std::sync::OnceLock;

use glovebox_component_host::{LIFT_BYTES, SandboxCtx, SandboxHost, add_to_linker};
use serde_json::Value;
use wasmtime::{
    Config, Engine, Store,
    component::{Component, Instance, InstancePre, Linker, Val},
};

pub use module::{END, component};

use codec::Arena;
use module::{ARGUMENTS, Import, Model, RESULT};

/// Enough fuel for every call that terminates.
const FUEL: u64 = 1_000_000_000;

/// The puppet's behaviour when the host allocates memory in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Misbehaviour {
    /// Allocates correctly.
    None = 0,
    /// Traps.
    Trap = 1,
    /// Returns a misaligned address.
    Misaligned = 2,
    /// Returns an address past the end of the puppet's memory.
    OutOfBounds = 3,
    /// Calls the sandbox before it allocates.
    CallInRealloc = 4,
    /// Never returns.
    Endless = 5,
    /// Returns memory that overlaps the result.
    Overlapping = 6,
    /// Calls the sandbox in the post-return function of its own result.
    CallInPostReturn = 7,
}

/// An instance of the puppet in its own store.
pub struct Puppet {
    /// The store, which contains the sandbox.
    pub store: Store<SandboxCtx>,
    instance: Instance,
    how: Misbehaviour,
}

struct LoadedModel {
    model: Model,
    instance: InstancePre<SandboxCtx>,
}

fn loaded() -> &'static LoadedModel {
    static LOADED: OnceLock<LoadedModel> = OnceLock::new();
    LOADED.get_or_init(|| {
        let model = Model::new();
        let mut config = Config::new();
        config.consume_fuel(true);
        let engine = Engine::new(&config).unwrap();
        let component = Component::new(&engine, &model.component).unwrap();
        let mut linker = Linker::new(&engine);
        add_to_linker(&mut linker).unwrap();
        LoadedModel { instance: linker.instantiate_pre(&component).unwrap(), model }
    })
}

/// Compiles the puppet, a component that imports every function, for another engine.
pub fn component_of_all(engine: &Engine) -> Component {
    Component::new(engine, &loaded().model.component).unwrap()
}

impl Puppet {
    /// Creates a puppet with its own sandbox.
    pub fn new(host: &SandboxHost) -> Self {
        let instance = &loaded().instance;
        let mut store = Store::new(instance.engine(), host.ctx());
        store.set_fuel(FUEL).unwrap();
        store.set_hostcall_fuel(LIFT_BYTES);
        let instance = instance.instantiate(&mut store).unwrap();
        Self { store, instance, how: Misbehaviour::None }
    }

    /// Replaces this instance with another instance in the same store, which uses the same sandbox.
    #[must_use]
    pub fn beside(self) -> Self {
        let Self { mut store, .. } = self;
        let instance = loaded().instance.instantiate(&mut store).unwrap();
        Self { store, instance, how: Misbehaviour::None }
    }

    fn enter(&mut self, function: &str, arguments: &[Val]) -> wasmtime::Result<Option<Val>> {
        let function = self.instance.get_func(&mut self.store, function).expect("the puppet has this function");
        self.store.set_fuel(FUEL)?;
        let mut results = vec![Val::Bool(false); function.ty(&self.store).results().len()];
        function.call(&mut self.store, arguments, &mut results)?;
        Ok(results.pop())
    }

    /// Writes into the puppet's memory.
    pub fn write(&mut self, at: u32, bytes: &[u8]) {
        let write = self
            .instance
            .get_typed_func::<(u32, &[u8]), ()>(&mut self.store, "write")
            .expect("the puppet exports `write`");
        self.store.set_fuel(FUEL).expect("fuel is counted");
        write.call(&mut self.store, (at, bytes)).expect("the puppet has this memory");
    }

    /// Reads the puppet's memory.
    pub fn read(&mut self, at: u32, len: u32) -> Vec<u8> {
        let read = self
            .instance
            .get_typed_func::<(u32, u32), (Vec<u8>,)>(&mut self.store, "read")
            .expect("the puppet exports `read`");
        self.store.set_fuel(FUEL).expect("fuel is counted");
        let (bytes,) = read.call(&mut self.store, (at, len)).expect("the puppet has this memory");
        bytes
    }

    /// Sets how the puppet allocates memory for the host in subsequent calls to the sandbox.
    pub fn misbehave(&mut self, how: Misbehaviour) {
        self.how = how;
    }

    /// Like [`enter`](Self::enter), but with the configured misbehaviour.
    fn enter_misbehaving(&mut self, function: &str, arguments: &[Val]) -> wasmtime::Result<Option<Val>> {
        if self.how == Misbehaviour::None {
            return self.enter(function, arguments);
        }
        self.enter("misbehave", &[Val::U32(self.how as u32)])?;
        let result = self.enter(function, arguments)?;
        self.enter("misbehave", &[Val::U32(0)])?;
        Ok(result)
    }

    /// Calls a puppet function that returns an empty string, and its post-return function.
    ///
    /// # Errors
    /// Fails if the call traps.
    pub fn talk(&mut self) -> wasmtime::Result<()> {
        self.enter_misbehaving("talk", &[]).map(drop)
    }

    /// Calls a function of the sandbox by its WIT name, such as `execute`, `session.open` or `blob.drop`. The arguments
    /// are a list of JSON values. Records are objects, whose optional fields may be omitted. A case of a variant is its
    /// name, or an object with one key. Lists of bytes are strings. In place of any string or list, `{"raw": [pointer,
    /// length]}` passes exactly these numbers, and writes no data.
    ///
    /// # Errors
    /// Fails if the call traps.
    pub fn call(&mut self, function: &str, arguments: &Value) -> wasmtime::Result<Value> {
        let LoadedModel { model, .. } = loaded();
        let import = model.imports.get(function).unwrap_or_else(|| panic!("there is no function `{function}`"));
        let flat = self.lower(import, arguments);
        let returned = self.enter_misbehaving(&import.caller, &flat)?;
        let Some(ty) = &import.result else { return Ok(Value::Null) };
        if !import.has_result_pointer {
            return Ok(match returned {
                Some(Val::U32(number)) => number.into(),
                Some(Val::U64(number)) => number.into(),
                _ => Value::Null,
            });
        }
        // The values may be far apart in memory, but most of them are near the result. One read fetches those.
        let near = self.read(RESULT, 2_048);
        let mut read = |at: u32, len: u32| match near_part(&near, at, len) {
            Some(part) => part.to_vec(),
            None => self.read(at, len),
        };
        Ok(model.codec.load(&mut read, RESULT, ty))
    }

    /// Calls a function with flat values, which may be invalid. The address of the result is appended.
    ///
    /// # Errors
    /// Fails if the call traps.
    pub fn call_flat(&mut self, function: &str, flat: &[u64]) -> wasmtime::Result<()> {
        let import =
            loaded().model.imports.get(function).unwrap_or_else(|| panic!("there is no function `{function}`"));
        let result = import.has_result_pointer.then_some(u64::from(RESULT));
        let values = import.values(flat.iter().copied().chain(result).collect());
        self.enter_misbehaving(&import.caller, &values).map(drop)
    }

    /// Writes arguments to the puppet's memory, and returns the arguments for the core function.
    fn lower(&mut self, import: &Import, arguments: &Value) -> Vec<Val> {
        let LoadedModel { model, .. } = loaded();
        let codec = &model.codec;
        let mut arena = Arena { base: ARGUMENTS, bytes: Vec::new() };
        let offsets = codec.sizes.field_offsets(&import.parameters);
        let size = codec.sizes.params(&import.parameters).size.size_wasm32();
        let base = arena.room(size);
        let mut flat = Vec::new();
        for (at, (offset, ty)) in offsets.into_iter().enumerate() {
            let address = base + u32::try_from(offset.size_wasm32()).unwrap();
            codec.store(&mut arena, address, ty, arguments.get(at).unwrap_or(&Value::Null));
            if !import.is_indirect {
                codec.flatten(&arena, address, ty, &mut flat);
            }
        }
        if import.is_indirect {
            flat.push(u64::from(base));
        }
        if import.has_result_pointer {
            flat.push(u64::from(RESULT));
        }
        if !arena.bytes.is_empty() {
            self.write(ARGUMENTS, &arena.bytes);
        }
        import.values(flat)
    }
}

fn near_part(near: &[u8], at: u32, len: u32) -> Option<&[u8]> {
    let begin = usize::try_from(at.checked_sub(RESULT)?).ok()?;
    near.get(begin..begin.checked_add(usize::try_from(len).ok()?)?)
}
