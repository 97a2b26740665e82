//! Boots an unprepared module and parks its interpreter.

use std::collections::BTreeMap;

use glovebox_wasi::{Stop, Stream};

use super::{
    COMPILER, Form,
    object::{Interpreter, SCRATCH_BYTES, TWISTER_SAMPLE},
    wire::{DEFAULT_NAME, decode_report, decode_settled},
};
use crate::{
    Anchors, Boot, Callee, DriverError, Interrupt, Machine, MachineError, Report, SCRATCH, Script, Value, heap, python,
};

/// The code that runs in every interpreter, as one module, followed by the files in `$own`.
macro_rules! boot_code {
    ($($own:literal),*) => {
        concat!(
            include_str!("boot/library.py"),
            include_str!("boot/world.py"),
            include_str!("boot/maps.py"),
            include_str!("boot/hashes.py"),
            include_str!("boot/generators.py"),
            include_str!("boot/decimals.py"),
            include_str!("boot/clock.py"),
            include_str!("boot/interrupt.py"),
            include_str!("boot/threads.py"),
            include_str!("boot/integers.py"),
            include_str!("boot/fonts.py"),
            include_str!("boot/sources.py"),
            include_str!("boot/report.py"),
            include_str!("boot/value.py"),
            include_str!("boot/text.py"),
            include_str!("boot/tools.py"),
            include_str!("boot/network.py"),
            include_str!("boot/displays.py"),
            include_str!("boot/packages.py"),
            include_str!("boot/globals.py"),
            include_str!("boot/driver.py"),
            include_str!("boot/settle.py"),
            $(include_str!($own)),*
        )
    };
}

pub(super) const COMMAND: &str = boot_code!("boot/park.py");
/// Only the reactor build has Pillow and pandas, so only its boot code ends with the image codecs and the Parquet
/// engine. Their sources are string literals, because each file is compiled as a module of its own.
pub(super) const REACTOR: &str = concat!(
    boot_code!(),
    "\nIMAGE_SOURCES = {'jpeg_read': r'''",
    include_str!("images/jpeg_read.py"),
    "''', 'jpeg_write': r'''",
    include_str!("images/jpeg_write.py"),
    "''', 'webp': r'''",
    include_str!("images/webp.py"),
    "''', 'webp_lossless': r'''",
    include_str!("images/webp_lossless.py"),
    "''', 'webp_lossy': r'''",
    include_str!("images/webp_lossy.py"),
    "'''}\n",
    include_str!("boot/images.py"),
    "\nPARQUET_SOURCES = {'arrow': r'''",
    include_str!("parquet/arrow.py"),
    "''', 'codecs': r'''",
    include_str!("parquet/codecs.py"),
    "''', 'describe': r'''",
    include_str!("parquet/describe.py"),
    "''', 'encodings': r'''",
    include_str!("parquet/encodings.py"),
    "''', 'engine': r'''",
    include_str!("parquet/engine.py"),
    "''', 'frame': r'''",
    include_str!("parquet/frame.py"),
    "''', 'infer': r'''",
    include_str!("parquet/infer.py"),
    "''', 'labels': r'''",
    include_str!("parquet/labels.py"),
    "''', 'nested': r'''",
    include_str!("parquet/nested.py"),
    "''', 'pages': r'''",
    include_str!("parquet/pages.py"),
    "''', 'schema': r'''",
    include_str!("parquet/schema.py"),
    "''', 'shred': r'''",
    include_str!("parquet/shred.py"),
    "''', 'thrift': r'''",
    include_str!("parquet/thrift.py"),
    "''', 'values': r'''",
    include_str!("parquet/values.py"),
    "''', 'write': r'''",
    include_str!("parquet/write.py"),
    "''', 'zstd': r'''",
    include_str!("parquet/zstd.py"),
    "'''}\n",
    include_str!("boot/parquet.py"),
);

/// Runs [`COMMAND`] in its own module, so that the script has `__main__` to itself. The module has its own builtins,
/// so that a script can replace the shared ones.
const LOADER: &str = "import sys; driver = type(sys)('glovebox_driver'); \
                      driver.__builtins__ = dict(vars(__builtins__)); \
                      exec(compile(sys.argv.pop(), '<glovebox>', 'exec'), driver.__dict__)";

/// Like [`LOADER`], but in a namespace that is dropped afterwards. `HEX` is the boot code in hexadecimal, which needs
/// no quoting. Adds the script's directory to the path, because a reactor's interpreter is created without this
/// directory.
const REACTOR_LOADER: &str = "import sys\n\
    sys.dont_write_bytecode = True\n\
    sys.argv = ['']\n\
    sys.path.insert(0, '')\n\
    driver = type(sys)('glovebox_driver')\n\
    driver.__builtins__ = dict(vars(__import__('builtins')))\n\
    exec(compile(bytes.fromhex('HEX'), '<glovebox>', 'exec'), driver.__dict__)\n";

/// The size of a command's stack after boot, in bytes. The build's default of 512 KiB is exhausted by 60 nested
/// constructors, because the code is not optimized.
///
/// An overflow of this stack would run into the heap instead of trapping, so another limit must be reached first.
/// Recursion that CPython counts ends at 2.1 MiB, regardless of `sys.setrecursionlimit`. Recursion that CPython does
/// not count (`hash` of nested tuples, `next` of nested `map`s) uses at most one byte of this stack for each byte of
/// native stack. The engine grants 16 MiB of native stack, which is exhausted first and traps.
const C_STACK_BYTES: u32 = 24 << 20;
/// The size of a reactor's stack, in bytes. The stack is below all other memory, so an overflow traps.
const REACTOR_STACK_BYTES: u32 = 16 << 20;
/// The number of bytes of a reactor's stack that CPython can use before it raises a `RecursionError`. The C library's
/// default of 128 KiB is enough for 51 nested `sorted(key=…)`. The engine's native stack must not overflow before this
/// limit is reached. With a limit of 768 KiB, `json.loads` overflows the native stack first.
const REACTOR_STACK_USED: u32 = 512 << 10;
/// `_PyOS_STACK_MARGIN_BYTES` (Include/internal/pycore_pythonrun.h): the distance between the limits for an exception
/// and for an abort.
const STACK_MARGIN: u32 = 8 << 10;
const PAGE_BYTES: u32 = 64 << 10;

/// The export of a reactor that calls `malloc`.
const ALLOCATE: &str = "host_alloc";
/// The anchor of the block in a reactor's heap from which to search for free memory.
const HEAP: &str = "heap";

/// The driver's functions, as `settle.py` names them.
const FUNCTIONS: &str = "\
    run run_with validate get_variable set_variable restore_globals next_global complain rearm flush flush_streams \
    close grow withdraw_packages renew setup settle";

pub(super) fn args() -> Vec<String> {
    ["python", "-c", LOADER, COMMAND].map(str::to_owned).to_vec()
}

pub(super) fn env() -> Vec<(String, String)> {
    [
        ("HOME", "/app"),
        ("LC_ALL", "C.UTF-8"),
        // Makes `pyplot.show` a driver function, if matplotlib exists.
        ("MPLBACKEND", "module://glovebox_figures"),
        // A directory in the interpreter's file system. Searching a directory outside this file system would count as
        // an attempt to escape.
        ("PATH", "/usr/local/bin"),
        // Prevents `__pycache__` directories among a script's files.
        ("PYTHONDONTWRITEBYTECODE", "1"),
        // Fixed, because random hashes would make the image and the print order of sets nondeterministic.
        ("PYTHONHASHSEED", "0"),
        ("PYTHONIOENCODING", "utf-8"),
        ("PYTHONUTF8", "1"),
        // The first directory that `tempfile` tries. `tempfile` tests each directory by writing to it.
        ("TMPDIR", SCRATCH),
    ]
    .map(|(name, value)| (name.to_owned(), value.to_owned()))
    .to_vec()
}

pub(super) fn boot(form: Form, machine: &mut dyn Machine) -> Result<Anchors, DriverError> {
    let mut anchors = BTreeMap::new();
    match form {
        Form::Command => boot_command(machine)?,
        Form::Reactor => {
            anchors.insert(HEAP.to_owned(), start_reactor(machine)?);
            let hex: String = REACTOR.bytes().map(|byte| format!("{byte:02x}")).collect();
            run_in_reactor(machine, &REACTOR_LOADER.replace("HEX", &hex))?;
            extend_stack(machine)?;
        }
    }
    let mut notes = notes(machine.wasi().output(Stream::Stdout));
    if !notes.contains_key("state") {
        return Err(failure(machine, "it did not finish"));
    }
    let sample = notes.remove("state").unwrap_or_default();
    for (name, words) in notes {
        let &[address] = words.as_slice() else {
            return Err(DriverError::Boot(format!("the boot code did not print exactly one address for `{name}`")));
        };
        anchors.insert(name, address);
    }
    let scratch = match form {
        Form::Command => move_stack(machine)?,
        Form::Reactor => allocate(machine, SCRATCH_BYTES)?,
    };
    let immortal = form.immortal_refcount();
    anchors.insert("scratch".to_owned(), scratch);
    let mut anchors = Anchors(anchors);

    let mut interpreter = Interpreter::new(machine, &anchors);
    let slot = interpreter.vectorcall_slot(anchors.get("run")?)?;
    for function in FUNCTIONS.split(' ') {
        let address = anchors.get(function)?;
        if interpreter.vectorcall_slot(address)? != slot {
            return Err(DriverError::Boot(format!("`{function}` and `run` have different vectorcall slots")));
        }
        interpreter.immortalise(address, immortal)?;
    }
    for object in ["buffer", "interrupted", "reason", "generator_flags"] {
        interpreter.immortalise(anchors.get(object)?, immortal)?;
    }
    let generator = anchors.get("generator")?;
    let state = interpreter.find_state(generator, sample.first_chunk::<TWISTER_SAMPLE>().map_or(&[], |s| s))?;
    let state = state
        .ok_or_else(|| DriverError::Boot("`random` does not keep its state at the expected address".to_owned()))?;
    interpreter.immortalise(generator, immortal)?;
    let reason = interpreter.bytes_of(anchors.get("reason")?)?;
    let flags = interpreter.bytes_of(anchors.get("generator_flags")?)?;
    anchors.0.insert("slot".to_owned(), slot);
    anchors.0.insert("random".to_owned(), state);
    anchors.0.insert("interrupt_reason".to_owned(), reason);
    anchors.0.insert("seeded".to_owned(), flags);
    // Discard the output, which contained the addresses. The interpreter is already parked.
    machine.wasi().begin_execution();
    Ok(anchors)
}

/// Warms every path of the booted interpreter, and locates the objects whose addresses are now final.
pub(super) fn settle(
    python: &dyn Boot,
    form: Form,
    machine: &mut dyn Machine,
    mut anchors: Anchors,
) -> Result<Anchors, DriverError> {
    let (stack, interrupt_words) = match form {
        Form::Command => {
            let top = anchors.get("scratch")?;
            (top.saturating_sub(C_STACK_BYTES - SCRATCH_BYTES)..top, 4)
        }
        Form::Reactor => (0..REACTOR_STACK_BYTES, 3),
    };
    let mut interpreter = Interpreter::new(machine, &anchors);
    let settled = decode_settled(&interpreter.call("settle")?.unwrap_or_default())?;
    for object in settled.shared {
        interpreter.immortalise(object, form.immortal_refcount())?;
    }
    if let Some((generator, sample)) = settled.generator.split_first() {
        let numpy = interpreter.find_numpy(*generator, sample, form.immortal_refcount())?;
        anchors.0.extend([numpy]);
    }
    if form == Form::Reactor {
        heap::fill_holes(machine, anchors.get(HEAP)?, ALLOCATE)?;
    }
    let mut interpreter = Interpreter::new(machine, &anchors);
    let files = interpreter.files()?;
    let words = interpreter.find_interrupt(&stack, interrupt_words)?;
    anchors.0.insert("files".to_owned(), files);
    anchors.0.extend(words);
    Interpreter::new(machine, &anchors).check_interrupt(&python.interrupt(&anchors, Interrupt::Cancelled)?)?;
    // The first call from the host also costs slightly more, so every form of call is made once.
    for (last, wants_value) in [(false, false), (true, false), (false, true), (true, true)] {
        let script = Script { last, wants_value, ..Script::plain("print(1)", DEFAULT_NAME) };
        python.execute(machine, &anchors, &script)?;
    }
    // The samples left dead data on the stack. Zeros take no space in the image.
    let zeros = [0; 4096];
    for page in stack.clone().step_by(zeros.len()) {
        let length = usize::try_from(stack.end.saturating_sub(page)).unwrap_or(0).min(zeros.len());
        machine.write(page, zeros.get(..length).unwrap_or_default())?;
    }
    wipe_source(machine, python.boot_code())?;
    if form == Form::Reactor {
        heap::wipe_free_memory(machine, anchors.get(HEAP)?)?;
        heap::fill_end(machine, anchors.get(HEAP)?, ALLOCATE)?;
    }
    let wasi = machine.wasi();
    wasi.begin_execution(); // discards the samples' output
    wasi.set_args([]).and_then(|()| wasi.set_env([])).map_err(|error| DriverError::Boot(error.to_string()))?;
    Ok(anchors)
}

/// Runs an image's setup code in the booted interpreter.
pub(super) fn set_up(interpreter: &mut Interpreter<'_>, source: &str) -> Result<(), DriverError> {
    if !interpreter.send(source.as_bytes())? {
        return Err(DriverError::Setup("the setup code does not fit into the guest's memory".to_owned()));
    }
    let report = interpreter.call("setup")?.map(|reply| decode_report(&reply)).transpose()?;
    report.map_or(Ok(()), Report::of_setup)
}

/// Zeroes the remains of the boot code. The code was an argument, so the C library has a copy, and CPython has a
/// second copy in wide characters. Neither copy is needed any more, and zeros take no space in the image.
fn wipe_source(machine: &mut dyn Machine, source: &[u8]) -> Result<(), DriverError> {
    let mut memory = vec![0; usize::try_from(machine.memory_bytes()).unwrap_or_default()];
    machine.read(0, &mut memory)?;
    let wide: Vec<u8> =
        String::from_utf8_lossy(source).chars().flat_map(|char| u32::from(char).to_le_bytes()).collect();
    for text in [source, &wide] {
        let Some(head) = text.get(..SOURCE_HEAD_BYTES) else { continue };
        let mut from = 0;
        while let Some(found) = memory.get(from..).and_then(|rest| position(rest, head)) {
            let at = from + found;
            let same = memory.iter().skip(at).zip(text).take_while(|(one, other)| one == other).count();
            machine.write(u32::try_from(at).map_err(|_| too_large())?, &vec![0; same])?;
            from = at + same;
        }
    }
    Ok(())
}

/// The length of the prefix that identifies the boot code in memory, in bytes.
const SOURCE_HEAD_BYTES: usize = 256;

fn position(within: &[u8], what: &[u8]) -> Option<usize> {
    let first = *what.first()?;
    let mut from = 0;
    loop {
        from += within.get(from..)?.iter().position(|byte| *byte == first)?;
        if within.get(from..)?.starts_with(what) {
            return Some(from);
        }
        from += 1;
    }
}

fn too_large() -> DriverError {
    DriverError::Boot("its memory is too large".to_owned())
}

/// Runs the boot code in a command, which is unwound when it parks.
fn boot_command(machine: &mut dyn Machine) -> Result<(), DriverError> {
    machine.wasi().allow_parking(true);
    match machine.call(Callee::Export("_start"), &[]) {
        Err(MachineError::Stopped(Stop::Parked)) => Ok(()),
        Err(error) => Err(failure(machine, &error.to_string())),
        Ok(_) => Err(failure(machine, "it returned instead of parking")),
    }
}

/// CPython's `PYMEM_ALLOCATOR_MIMALLOC`.
const MIMALLOC: u32 = 7;

/// Creates a reactor's interpreter. Returns the address of one of the heap's first blocks, which is never freed.
fn start_reactor(machine: &mut dyn Machine) -> Result<u32, DriverError> {
    machine.wasi().allow_parking(false);
    enter_reactor(machine, "_initialize", &[])?;
    let first = allocate(machine, 1)?;
    // Until it is first entered, this build answers calls for the clock, random numbers and file status itself, with
    // zeros and a fixed date. Calling `shutdown` enters it without any other effect. The argument 1 stands for
    // `PYTHONHASHSEED=0`, without which the image would not be deterministic.
    enter_reactor(machine, "shutdown", &[])?;
    enter_reactor(machine, "_PyMem_SetupAllocators", &[Value::I32(MIMALLOC)])?;
    enter_reactor(machine, "init_interpreter", &[Value::I32(1)])?;
    Ok(first)
}

fn enter_reactor(machine: &mut dyn Machine, function: &str, args: &[Value]) -> Result<(), DriverError> {
    let called = machine.call(Callee::Export(function), args);
    called.map(drop).map_err(|error| failure(machine, &error.to_string()))
}

/// Runs Python code in a reactor's interpreter.
fn run_in_reactor(machine: &mut dyn Machine, code: &str) -> Result<(), DriverError> {
    let length = u32::try_from(code.len()).map_err(|_| too_large())?;
    let at = allocate(machine, length.checked_add(1).ok_or_else(too_large)?)?;
    machine.write(at, code.as_bytes())?;
    machine.write(at.saturating_add(length), &[0])?;
    enter_reactor(machine, "run_private", &[Value::I32(at)])?;
    machine.write(at, &vec![0; code.len()]).map_err(DriverError::from)
}

/// Allocates reactor memory that is never freed.
fn allocate(machine: &mut dyn Machine, bytes: u32) -> Result<u32, DriverError> {
    match machine.call(Callee::Export(ALLOCATE), &[Value::I32(bytes)])? {
        Some(Value::I32(at)) if at != 0 => Ok(at),
        _ => Err(DriverError::Boot(format!("it cannot allocate {bytes} bytes of memory"))),
    }
}

/// Compiles the packages in a reactor.
pub(super) fn compile_in_reactor(machine: &mut dyn Machine) -> Result<(), DriverError> {
    start_reactor(machine)?;
    let args: Vec<String> = python::compiler_args().into_iter().skip(3).map(|arg| format!("'{arg}'")).collect();
    let prelude = format!("import sys\nsys.dont_write_bytecode = True\nsys.argv = ['', {}]\n", args.join(", "));
    run_in_reactor(machine, &format!("{prelude}{COMPILER}"))
}

/// Moves the C stack to new memory above all other memory. Returns the stack's end, where the scratch area starts.
fn move_stack(machine: &mut dyn Machine) -> Result<u32, DriverError> {
    let old_pages = machine.grow(C_STACK_BYTES / PAGE_BYTES)?;
    let top = old_pages.checked_mul(PAGE_BYTES).and_then(|old| old.checked_add(C_STACK_BYTES - SCRATCH_BYTES));
    let top = top.ok_or_else(too_large)?;
    machine.set_global("__stack_pointer", top)?;
    Ok(top)
}

/// Raises the limit on a reactor's stack use. Changes `c_stack_soft_limit` and `c_stack_hard_limit` in the thread's
/// state, which follow `c_stack_top` (Include/internal/pycore_tstate.h).
fn extend_stack(machine: &mut dyn Machine) -> Result<(), DriverError> {
    let mut memory = vec![0; usize::try_from(machine.memory_bytes()).unwrap_or_default()];
    machine.read(0, &mut memory)?;
    let words = memory.as_chunks::<4>().0;
    let mut tops = (0_u32..).step_by(4).zip(words.windows(3)).filter_map(|(at, words)| match *words {
        [top, soft, hard] => {
            let [top, soft, hard] = [top, soft, hard].map(u32::from_le_bytes);
            (is_stack_top(top) && soft < top && soft.checked_sub(hard) == Some(STACK_MARGIN)).then_some((at, top))
        }
        _ => None,
    });
    let (Some((at, top)), None) = (tops.next(), tops.next()) else {
        return Err(DriverError::Boot("its thread has unexpected stack limits".to_owned()));
    };
    let hard = top.saturating_sub(REACTOR_STACK_USED);
    let soft = hard.saturating_add(STACK_MARGIN);
    machine.write(at.saturating_add(4), [soft.to_le_bytes(), hard.to_le_bytes()].as_flattened())?;
    Ok(())
}

/// Returns `true` if an address can be the top of a reactor's stack, which CPython rounds up to 4 KiB pages.
fn is_stack_top(address: u32) -> bool {
    address > REACTOR_STACK_BYTES - PAGE_BYTES && address <= REACTOR_STACK_BYTES
}

/// Parses the output of `settle.py`: each line has a name followed by numbers.
fn notes(output: &[u8]) -> BTreeMap<String, Vec<u32>> {
    let mut notes = BTreeMap::new();
    for line in String::from_utf8_lossy(output).lines() {
        let mut words = line.split_whitespace();
        if let Some(name) = words.next() {
            notes.insert(name.to_owned(), words.map_while(|word| word.parse().ok()).collect());
        }
    }
    notes
}

/// Returns an error with the end of standard error in its message.
fn failure(machine: &mut dyn Machine, how: &str) -> DriverError {
    let stderr = String::from_utf8_lossy(machine.wasi().output(Stream::Stderr)).into_owned();
    let start = stderr.char_indices().rev().nth(2000).map_or(0, |(at, _)| at);
    DriverError::Boot(format!("{how}: {}", stderr.get(start..).unwrap_or_default().trim_end()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn boot_notes_contain_names_and_numbers() {
        let notes = notes(b"run 17\nstate 1 2 3\n\nodd x 4\n");
        assert_eq!(notes.get("run"), Some(&vec![17]));
        assert_eq!(notes.get("state"), Some(&vec![1, 2, 3]));
        assert_eq!(notes.get("odd"), Some(&vec![]));
        assert_eq!(notes.len(), 3);
    }

    #[test]
    fn no_argument_contains_a_nul() {
        assert!(args().iter().all(|arg| !arg.contains('\0')));
    }
}
