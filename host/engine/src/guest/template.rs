//! Templates for guests' instances.

use glovebox_runtimes::rewrite::MEMORY_EXPORT;
use wasmtime::{Error, Extern, ExternType, Instance, InstancePre, Linker, Memory, Module, Result, Store, Val};

use crate::guest::state::State;

/// Compiled code to instantiate.
pub(crate) enum Template {
    /// A module with a memory of its own: a plain command.
    Whole(InstancePre<State>),
    /// An interpreter's code and its memory, which are compiled separately, so that all images of an interpreter share
    /// its code.
    Apart {
        /// The code, which imports its memory.
        code: Module,
        /// A module that defines only the memory.
        memory: Module,
        /// Values of the exported globals, if they differ from the initial values in the code.
        globals: Vec<(String, Val)>,
    },
}

impl Template {
    /// Creates an instance in a store.
    pub(crate) fn instantiate(&self, linker: &Linker<State>, store: &mut Store<State>) -> Result<Instance> {
        let (code, memory, globals) = match self {
            Self::Whole(pre) => return pre.instantiate(store),
            Self::Apart { code, memory, globals } => (code, memory, globals),
        };
        let memory = instantiate_memory(&mut *store, memory)?;
        let imports = code.imports().map(|import| match import.ty() {
            ExternType::Memory(_) => Ok(memory.into()),
            _ => linker.get_by_import(&mut *store, &import).ok_or_else(|| missing(import.name())),
        });
        let imports = imports.collect::<Result<Vec<Extern>>>()?;
        let instance = Instance::new(&mut *store, code, &imports)?;
        for (name, value) in globals {
            let global = instance.get_global(&mut *store, name).ok_or_else(|| missing(name))?;
            global.set(&mut *store, *value)?;
        }
        Ok(instance)
    }
}

/// Instantiates a module that defines only a memory.
pub(crate) fn instantiate_memory<T>(store: &mut Store<T>, module: &Module) -> Result<Memory> {
    let instance = Instance::new(&mut *store, module, &[])?;
    instance.get_memory(store, MEMORY_EXPORT).ok_or_else(|| missing(MEMORY_EXPORT))
}

fn missing(name: &str) -> Error {
    Error::msg(format!("`{name}` is missing"))
}
