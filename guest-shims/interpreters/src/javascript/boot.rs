//! Boots an unprepared module and parks its interpreter.

use std::{collections::BTreeMap, sync::LazyLock};

use serde_json::json;

use super::{
    Build,
    compile::{NAME_BYTES, SOURCE_BYTES},
    guest::{EVAL_COMPILE_ONLY, EVAL_MODULE, Guest, JsValue, SCRATCH_BYTES},
    library::{FILES, compiled},
    state::{Addresses, BootedGuest},
    structures::{fault, limit_stack},
    wipe::fill_arenas,
};
use crate::{Anchors, DriverError, Machine, Value, heap};

/// The size of the shadow stack for scripts, in bytes: room for 1,000 levels of plain functions. QuickJS checks only
/// the shadow stack, but frames also use the native stack, at most 25 times as much (`JSON.parse`, nested parentheses).
/// The engine provides 40 times as much.
const STACK_BYTES: u32 = 320 << 10;

/// The size of the new shadow stack, in 64 KiB pages. The new stack replaces the build's own stack, which has only 60
/// KiB in one build. The pages beyond [`STACK_BYTES`] are for native code below QuickJS's last check.
const SHADOW_PAGES: u32 = 16;
const PAGE_BYTES: u32 = 64 << 10;
/// The alignment of chunks in a segment, in bytes. The usable memory of the first chunk starts at this offset.
const CHUNK_ALIGNMENT: u32 = 16;

/// The functions that create the native modules, with the names under which the boot scripts import the modules.
const NATIVE: [(&str, &str); 3] = [
    ("js_init_module_std", "glovebox:std"),
    ("js_init_module_os", "glovebox:os"),
    ("js_init_module_bjson", "glovebox:bjson"),
];

/// The boot scripts, in order.
const SCRIPTS: [(&str, &str); 17] = [
    ("glovebox:prelude", include_str!("prelude.js")),
    ("glovebox:text", include_str!("text.js")),
    ("glovebox:callee", include_str!("callee.js")),
    ("glovebox:inspect", include_str!("inspect.js")),
    ("glovebox:console", include_str!("console.js")),
    ("glovebox:globals", include_str!("globals.js")),
    ("glovebox:lazy", include_str!("lazy.js")),
    ("glovebox:path", include_str!("path.js")),
    ("glovebox:fs", include_str!("fs.js")),
    ("glovebox:modules", include_str!("modules.js")),
    ("glovebox:helpers", include_str!("helpers.js")),
    ("glovebox:driver", include_str!("driver.js")),
    ("glovebox:values", include_str!("values.js")),
    ("glovebox:persist", include_str!("persist.js")),
    ("glovebox:tools", include_str!("tools.js")),
    ("glovebox:context", include_str!("context.js")),
    ("glovebox:warm", include_str!("warm.js")),
];

/// `JS_WRITE_OBJ_BYTECODE`.
const WRITE_BYTECODE: u32 = 1;
/// `JS_WRITE_OBJ_STRIP_SOURCE`.
const WRITE_STRIP_SOURCE: u32 = 1 << 4;
/// `JS_READ_OBJ_BYTECODE`.
const READ_BYTECODE: u32 = 1;

/// A loop that only an interrupt ends.
const ENDLESS: &str = "for (;;);";

/// The export that holds the interrupt handler's table slot. The recipe adds the export.
const INTERRUPT_HANDLER: &str = "__interrupt_handler";

/// The export that holds the table slot of the function that reads promises. The recipe adds the export.
const PROMISE_READER: &str = "__read_promise";
/// The names of the promise reader in the boot scripts, each with its `magic`.
const PROMISE_READERS: [(&str, u32); 2] = [("promiseState", 0), ("promiseResult", 1)];
/// The promise reader's calling convention (`JS_CFUNC_getter_magic`).
const GETTER_WITH_MAGIC: u32 = 10;

/// The export that holds the table slot of the function that reads atoms. The recipe adds the export.
const ATOM_READER: &str = "__read_atom";
/// The export that holds the address of the function that names callees. The recipe adds the export.
const CALLEE_NAMER: &str = "__callee_namer";
/// The atom reader's name in the boot scripts.
const READ_ATOM: &str = "readAtom";
/// The callee namer's name in the boot scripts.
const NAME_CALLEE: &str = "nameCallee";

const NATIVES: (&str, &str) = ("glovebox:natives", include_str!("natives.js"));
const FINISH: (&str, &str) = ("glovebox:finish", include_str!("finish.js"));

/// The modules for scripts, except the modules in `node/`.
const FACADES: [(&str, &str); 5] = [
    ("std", include_str!("std.js")),
    ("qjs:std", include_str!("std.js")),
    ("qjs:os", include_str!("os.js")),
    ("bjson", include_str!("bjson.js")),
    ("qjs:bjson", include_str!("bjson.js")),
];

/// The boot scripts and buffer sizes that determine an image.
pub(super) static CODE: LazyLock<String> = LazyLock::new(|| {
    let sources = SCRIPTS.iter().chain(&FACADES).chain([&NATIVES, &FINISH]);
    let mut code = format!("{STACK_BYTES} {SHADOW_PAGES} {SOURCE_BYTES} {NAME_BYTES} {SCRATCH_BYTES}");
    for (name, source) in sources {
        code.push_str(name);
        code.push_str(source);
    }
    code
});

/// Like [`CODE`], with the library's files. The files are not minified, because every program that prepares or looks up
/// an image computes this text.
pub(super) static WHOLE_CODE: LazyLock<String> =
    LazyLock::new(|| FILES.iter().fold(CODE.clone(), |code, (path, text)| code + path + text));

/// Returns the library as a JSON object of texts by path.
fn sources() -> String {
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    json!(compiled().into_iter().map(|(path, bytes)| (path, text(bytes))).collect::<BTreeMap<_, _>>()).to_string()
}

/// Boots an interpreter. Unless `lean` is set, the image includes the compiled library, which scripts would otherwise
/// compile on first use.
pub(super) fn boot(machine: &mut dyn Machine, build: &'static Build, lean: bool) -> Result<Anchors, DriverError> {
    let mut guest = Guest { machine, build, runtime: 0, context: 0, scratch: 0 };
    guest.call(build.initialise, &[])?;
    // On its first use, the allocator claims all existing memory. Use the allocator before adding the new stack, so
    // that the allocator does not claim the stack.
    let first = allocate(&mut guest, 1)?;
    guest.release(first)?;
    let old_pages = guest.machine.grow(SHADOW_PAGES)?;
    let stack_top = old_pages.checked_add(SHADOW_PAGES).and_then(|pages| pages.checked_mul(PAGE_BYTES));
    let stack_top = stack_top.ok_or_else(|| fault("its memory is too small for a stack"))?;
    guest.machine.set_global("__stack_pointer", stack_top)?;

    let mut at = Addresses { scratch: allocate(&mut guest, SCRATCH_BYTES)?, ..Addresses::default() };
    guest.scratch = at.scratch;
    at.source = allocate(&mut guest, SOURCE_BYTES)?;
    at.name = allocate(&mut guest, NAME_BYTES)?;
    at.key = allocate(&mut guest, NAME_BYTES)?;
    at.runtime = not_null(guest.call_word("JS_NewRuntime", &[])?, "JSRuntime")?;
    guest.runtime = at.runtime;
    (at.stack_limit_at, at.stack_limit) = limit_stack(&mut guest, stack_top, STACK_BYTES)?;
    at.interrupt = allocate(&mut guest, 4)?;
    guest.write_word(at.interrupt, 0)?;
    let handler = [at.runtime, guest.machine.global(INTERRUPT_HANDLER)?, at.interrupt].map(Value::I32);
    guest.call("JS_SetInterruptHandler", &handler)?;
    guest.call("js_std_init_handlers", &[Value::I32(at.runtime)])?;
    at.context = not_null(guest.call_word("JS_NewContext", &[Value::I32(at.runtime)])?, "JSContext")?;
    guest.context = at.context;

    for (init, name) in NATIVE {
        guest.write_text(at.name, name.as_bytes())?;
        not_null(guest.call_word(init, &[Value::I32(at.context), Value::I32(at.name)])?, name)?;
    }
    guest.load_modules(true)?;
    let tracker = [at.runtime, build.rejection_tracker, 0].map(Value::I32);
    guest.call("JS_SetHostPromiseRejectionTracker", &tracker)?;

    let mut booted = BootedGuest { guest, at };
    booted.at.rejections = booted.find_rejections()?;
    booted.evaluate(NATIVES, EVAL_MODULE)?;
    for (name, magic) in PROMISE_READERS {
        booted.give_reader(PROMISE_READER, name, magic)?;
    }
    if build.names_callees {
        booted.give_reader(ATOM_READER, READ_ATOM, 0)?;
    }
    let (warm, scripts) = SCRIPTS.split_last().ok_or_else(|| fault("no boot scripts"))?;
    for script in scripts {
        booted.evaluate_stripped(*script)?;
    }
    let words = booted.take_functions()?;
    booted.at.words = words;
    let preload = booted.value_of("glovebox:preload", "$glovebox.preload", 0)?;
    booted.evaluate_stripped(*warm)?;
    for module in FACADES {
        booted.evaluate(module, EVAL_MODULE)?;
    }
    booted.evaluate(FINISH, EVAL_MODULE)?;
    booted.at.random_state = booted.find_random_state()?;
    booted.at.global = booted.find_global()?;
    (booted.at.modules, booted.at.module_link) = booted.find_modules()?;
    booted.at.interrupt_counter = booted.find_interrupt_counter()?;
    booted.settle_clock()?;
    if !lean {
        // The library must be loaded last, so that only scripts that use it write to its pages.
        booted.preload(preload)?;
        booted.import_all()?;
    }
    booted.guest.free(preload)?;
    booted.guest.machine.wasi().begin_execution(); // discards the boot scripts' output
    (booted.at.first_chunk, booted.at.stack, booted.at.stack_top) =
        (first, old_pages.saturating_mul(PAGE_BYTES), stack_top);
    Ok(booted.at.into_anchors())
}

/// Prepares the memory for the image after boot and setup: exempts the existing objects from garbage collection, and
/// zeroes unused memory.
pub(super) fn settle(
    machine: &mut dyn Machine,
    anchors: &Anchors,
    build: &'static Build,
) -> Result<Anchors, DriverError> {
    let mut booted = BootedGuest::new(machine, anchors, build)?;
    let lexicals = booted.lexicals()?;
    let bindings = booted.ask(booted.at.keep_bindings, &[lexicals])?;
    booted.at.bindings = bindings.map_or(0, JsValue::small);
    let Addresses { runtime, first_chunk, stack, stack_top, .. } = booted.at;
    booted.guest.call("JS_RunGC", &[Value::I32(runtime)])?;
    booted.freeze()?;
    booted.guest.flush()?;
    // The last script's source must not stay in the image. Zeros take no space in the image.
    let zeros = vec![0; usize::try_from(SOURCE_BYTES).unwrap_or_default()];
    booted.guest.machine.write(booted.at.source, &zeros)?;
    // Unused stack must also be zero.
    let zeros = vec![0; usize::try_from(stack_top.saturating_sub(stack)).unwrap_or_default()];
    booted.guest.machine.write(stack, &zeros)?;
    // The allocator's second segment starts after the new stack, at the next aligned address.
    let segments = [first_chunk, stack_top.saturating_add(CHUNK_ALIGNMENT)];
    for first in segments {
        heap::fill_holes(booted.guest.machine, first, "malloc")?;
    }
    if build.has_arenas {
        fill_arenas(&mut booted.guest, segments)?;
    }
    for first in segments {
        heap::wipe_free_memory(booted.guest.machine, first)?;
    }
    if booted.rejection()?.is_some() {
        return Err(fault("a boot script left a rejected promise"));
    }
    booted.guest.machine.wasi().begin_execution(); // discards the setup's output
    Ok(booted.at.into_anchors())
}

fn allocate(guest: &mut Guest<'_>, bytes: u32) -> Result<u32, DriverError> {
    guest.allocate(bytes)?.ok_or_else(|| fault("no memory"))
}

fn not_null(at: u32, what: &str) -> Result<u32, DriverError> {
    if at == 0 { Err(fault(format!("it did not create `{what}`"))) } else { Ok(at) }
}

impl BootedGuest<'_> {
    /// Adds a function to `$glovebox` that reads its `this`. The `callback` export has the function's table slot.
    fn give_reader(&mut self, callback: &str, name: &str, magic: u32) -> Result<(), DriverError> {
        let shared = self.value_of("glovebox:functions", "$glovebox", 0)?;
        let slot = self.guest.machine.global(callback)?;
        self.guest.write_text(self.at.name, name.as_bytes())?;
        let args = [self.at.context, slot, self.at.name, 0, GETTER_WITH_MAGIC, magic].map(Value::I32);
        let function = self.guest.call_value("JS_NewCFunction2", &args)?;
        let [context, name_at] = [self.at.context, self.at.name].map(Value::I32);
        let args = [context, Value::I64(shared.0), name_at, Value::I64(function.0)];
        if function.is_exception() || self.guest.call_word("JS_SetPropertyStr", &args)? != 1 {
            return Err(fault(format!("it has no `{name}`")));
        }
        Ok(self.guest.free(shared)?)
    }

    /// Makes the engine call a function of the boot scripts when a callee is not a function or constructor, so that the
    /// error names the callee.
    fn name_callees(&mut self, shared: JsValue) -> Result<(), DriverError> {
        let namer = self.function(shared, NAME_CALLEE)?;
        let at = allocate(&mut self.guest, 8)?;
        self.guest.machine.write(at, &JsValue::object(namer).0.to_le_bytes())?;
        Ok(self.guest.machine.set_global(CALLEE_NAMER, at)?)
    }

    /// Evaluates a boot script, which must neither throw nor wait.
    fn evaluate(&mut self, (name, source): (&str, &str), flags: u32) -> Result<(), DriverError> {
        let value = self.value_of(name, source, flags)?;
        self.settle(name, value)
    }

    /// Like [`evaluate`](Self::evaluate), but for a boot script whose functions do not need their source text. The
    /// interpreter stores each function's source separately, so the sources of nested functions are stored several
    /// times. The script is therefore compiled, written without source text, and read again. The result takes a third
    /// of the space.
    fn evaluate_stripped(&mut self, (name, source): (&str, &str)) -> Result<(), DriverError> {
        let program = self.value_of(name, source, EVAL_COMPILE_ONLY)?;
        let [context, scratch] = [self.at.context, self.at.scratch].map(Value::I32);
        let flags = Value::I32(WRITE_BYTECODE | WRITE_STRIP_SOURCE);
        let bytes = self.guest.call_word("JS_WriteObject", &[context, scratch, Value::I64(program.0), flags])?;
        let bytes = not_null(bytes, name)?;
        let length = self.guest.read_word(self.at.scratch)?;
        self.guest.free(program)?;
        let args = [self.at.context, bytes, length, READ_BYTECODE].map(Value::I32);
        let program = self.guest.call_value("JS_ReadObject", &args)?;
        self.guest.call("js_free", &[self.at.context, bytes].map(Value::I32))?;
        let value = if program.is_exception() { program } else { self.guest.run(program)? };
        if value.is_exception() {
            return Err(self.take_error(name)?);
        }
        self.settle(name, value)
    }

    /// Makes the boot scripts compile and run the library, so that scripts do not read it from `/data_js`.
    fn preload(&mut self, preload: JsValue) -> Result<(), DriverError> {
        let function = preload.address().ok_or_else(|| fault("the boot scripts did not define `preload`"))?;
        let sources = sources();
        let string = self.string(&sources)?.ok_or_else(|| fault("no memory"))?;
        let result = self.ask(function, &[string])?;
        self.guest.free(string)?;
        let Some(failure) = result else { return Err(fault("`preload` threw")) };
        let text = self.guest.whole_text(failure)?.unwrap_or_default();
        self.guest.free(failure)?;
        if text.is_empty() { Ok(()) } else { Err(fault(format!("the library threw {text}"))) }
    }

    /// Runs the jobs that an evaluation has queued. Fails if a job or the evaluated module failed.
    fn settle(&mut self, name: &str, value: JsValue) -> Result<(), DriverError> {
        self.guest.free(value)?;
        while let Some(completed) = self.guest.job()? {
            if !completed {
                return Err(self.take_error(name)?);
            }
        }
        // A module that throws leaves a rejected promise.
        if let Some((_, reason)) = self.rejection()? {
            let text = self.guest.text(reason)?.unwrap_or_default();
            return Err(fault(format!("`{name}` failed: {text}")));
        }
        Ok(())
    }

    pub(super) fn value_of(&mut self, name: &str, source: &str, flags: u32) -> Result<JsValue, DriverError> {
        self.guest.write_text(self.at.name, name.as_bytes())?;
        let value = self.eval(source, flags)?.ok_or_else(|| fault("no memory"))?;
        if value.is_exception() { Err(self.take_error(name)?) } else { Ok(value) }
    }

    /// Converts the pending exception to an error.
    fn take_error(&mut self, name: &str) -> Result<DriverError, DriverError> {
        let thrown = self.guest.exception()?;
        let text = self.guest.text(thrown)?.unwrap_or_default();
        self.guest.free(thrown)?;
        Ok(fault(format!("`{name}` threw {text}")))
    }

    /// Takes from `$glovebox` the functions that the host calls, and gives `exit` its uncatchable error. The host owns
    /// references to the functions, so they outlive the script's globals. Returns the address of the shared words.
    fn take_functions(&mut self) -> Result<u32, DriverError> {
        let shared = self.value_of("glovebox:functions", "$glovebox", 0)?;
        let mut at = self.at;
        for (name, address) in at.functions() {
            *address = self.function(shared, name)?;
        }
        self.at = at;
        let arm = self.function(shared, "arm")?;
        let error = self.uncatchable()?;
        self.ask(arm, &[error])?.ok_or_else(|| fault("`arm` threw"))?;
        if self.guest.build.names_callees {
            self.name_callees(shared)?;
        }
        let words = self.function(shared, "buffer")?;
        let args = [Value::I32(self.at.context), Value::I32(self.at.scratch), Value::I64(JsValue::object(words).0)];
        let words = not_null(self.guest.call_word("JS_GetArrayBuffer", &args)?, "ArrayBuffer")?;
        self.guest.free(shared)?;
        Ok(words)
    }

    /// Returns the address of the object that is the value of a property. The caller owns the reference.
    fn function(&mut self, object: JsValue, name: &str) -> Result<u32, DriverError> {
        self.guest.write_text(self.at.name, name.as_bytes())?;
        let value = self.guest.property(object, self.at.name)?;
        value.address().ok_or_else(|| fault(format!("the boot scripts did not define `{name}`")))
    }

    /// Creates an error that the interpreter marks as uncatchable. Interrupting a script is the only way to obtain this
    /// error.
    fn uncatchable(&mut self) -> Result<JsValue, DriverError> {
        self.guest.write_word(self.at.interrupt, 1)?;
        let looped = self.eval(ENDLESS, 0)?.ok_or_else(|| fault("no memory"))?;
        self.guest.write_word(self.at.interrupt, 0)?;
        if !looped.is_exception() {
            return Err(fault("it cannot be interrupted"));
        }
        Ok(self.guest.exception()?)
    }

    /// Restarts `performance.now()` at zero. `JSContext.time_origin` is directly before the random state.
    fn settle_clock(&mut self) -> Result<(), DriverError> {
        let [old_at, new_at] = [self.at.words + OLD_ORIGIN_OFFSET, self.at.words + NEW_ORIGIN_OFFSET];
        let (old, new) = (self.guest.read_long(old_at)?, self.guest.read_long(new_at)?);
        let origin_at = self.at.random_state.checked_sub(8).ok_or_else(|| fault("it has no time origin"))?;
        if self.guest.read_long(origin_at)? != old {
            return Err(fault("its time origin is not at the expected address"));
        }
        self.guest.machine.write(origin_at, &new.to_le_bytes())?;
        Ok(())
    }
}

// Offsets at which `globals.js` stores the clock's origins, as doubles.
const NEW_ORIGIN_OFFSET: u32 = 16;
const OLD_ORIGIN_OFFSET: u32 = 24;
