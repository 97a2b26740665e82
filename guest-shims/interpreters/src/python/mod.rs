//! CPython as a 32-bit WASI program: 3.12 as a command, 3.15 as a reactor.
//!
//! At preparation, the files in `boot/` run inside the interpreter and define the driver's functions. [`boot`] parks
//! the interpreter and records the functions' addresses. Later, each call is an indirect call through the vectorcall
//! slot of Python's function type, like CPython's own calls. The binary therefore needs no additional exports.
//!
//! Requests and replies pass through guest memory ([`object`]).

mod boot;
mod interrupt;
mod object;
#[cfg(test)]
pub(crate) mod tests;
mod wire;

use std::borrow::Cow;

use glovebox_wasi::Stop;
use object::{IMMORTAL, IMMORTAL_SINCE_3_14, Interpreter};
use wire::{DEFAULT_NAME, decode_diagnostic, decode_report, decode_variable, fields, framed};

use crate::{
    Anchors, Boot, COMPILED_FILE, Callee, Diagnostic, Driver, DriverError, GuestValue, Interrupt, InterruptWrite,
    Machine, MachineError, RaisedOutcome, Report, Script, persist::PersistState,
};

/// The driver of CPython.
#[derive(Clone, Copy, Debug)]
pub struct Python {
    form: Form,
}

impl Python {
    /// Creates the driver for CPython 3.12, a command.
    pub fn command() -> Self {
        Self { form: Form::Command }
    }

    /// Creates the driver for CPython 3.15, a reactor.
    pub fn reactor() -> Self {
        Self { form: Form::Reactor }
    }
}

impl Boot for Python {
    fn boot_args(&self) -> Vec<String> {
        match self.form {
            Form::Command => boot::args(),
            Form::Reactor => Vec::new(),
        }
    }

    /// Returns the variables that `os.environ` contains in the image.
    fn boot_env(&self) -> Vec<(String, String)> {
        boot::env()
    }

    fn boot_code(&self) -> &[u8] {
        match self.form {
            Form::Command => boot::COMMAND.as_bytes(),
            Form::Reactor => boot::REACTOR.as_bytes(),
        }
    }

    fn compiler_args(&self) -> Option<Vec<String>> {
        Some(compiler_args())
    }

    fn compile_packages(&self, machine: &mut dyn Machine) -> Result<(), DriverError> {
        match self.form {
            Form::Command => compile(machine),
            Form::Reactor => boot::compile_in_reactor(machine),
        }
    }

    fn compiled_packages(&self, written: &[u8]) -> Result<Vec<(String, Vec<u8>)>, DriverError> {
        compiled(written)
    }

    fn boot(&self, machine: &mut dyn Machine) -> Result<Anchors, DriverError> {
        boot::boot(self.form, machine)
    }

    fn set_up(&self, machine: &mut dyn Machine, anchors: &Anchors, source: &str) -> Result<(), DriverError> {
        boot::set_up(&mut Interpreter::new(machine, anchors), source)
    }

    fn preload_code(&self, modules: &[String]) -> String {
        modules.iter().map(|module| format!("__import__({module:?})\n")).collect()
    }

    fn settle(&self, machine: &mut dyn Machine, anchors: Anchors) -> Result<Anchors, DriverError> {
        boot::settle(self, self.form, machine, anchors)
    }
}

impl Driver for Python {
    fn is_out_of_memory(&self, raised: &RaisedOutcome) -> bool {
        raised.type_name == "MemoryError"
    }

    /// Reseeds the generators that no script has seeded. All other code requests random numbers from the system each
    /// time.
    fn reseed(&self, machine: &mut dyn Machine, anchors: &Anchors) -> Result<(), DriverError> {
        // wasi-vfs requests the environment on each call. The interpreter has already read its variables at boot, so an
        // empty environment suffices.
        machine.wasi().set_env([]).map_err(|error| DriverError::Boot(error.to_string()))?;
        Interpreter::new(machine, anchors).reseed()
    }

    fn execute(
        &self,
        machine: &mut dyn Machine,
        anchors: &Anchors,
        script: &Script<'_>,
    ) -> Result<Report, DriverError> {
        let mut python = Interpreter::new(machine, anchors);
        python.settle_interrupts()?;
        python.renew_if_due()?;
        if !script.inject_setup {
            python.call("withdraw_packages")?;
        }
        let persisting = match script.persisted_bytes {
            Some(max) => Some(PersistState::begin(&mut python, max)?),
            None => None,
        };
        let (source, _) = source_of(script);
        let source = source.as_ref();
        let plain = script.name == DEFAULT_NAME && script.args.is_empty() && script.env.is_empty() && !script.has_stdin;
        let marked = python.is_marked()?;
        let (function, fits) = if plain && !marked {
            ("run", python.send(source.as_bytes())?)
        } else {
            // `run_with` also replaces the input of an earlier script in this instance.
            if marked == plain {
                python.set_mark(!plain)?;
            }
            ("run_with", python.send(&request(script, source))?)
        };
        if !fits {
            return Ok(Report::Raised(no_memory("the source")));
        }
        // The shutdown clears the globals, so they must be stored first.
        let ends = script.last && persisting.is_none();
        let reply = python.call_with(function, [ends, script.wants_value])?;
        // An unclosed file still has its last bytes in a buffer.
        if python.files()? != anchors.get("files")? {
            python.call("flush")?;
        }
        python.settle_interrupts()?;
        let report = reply.map_or(Ok(Report::Completed(None)), |reply| decode_report(&reply))?;
        if let Some(persisting) = persisting {
            persisting.end(&mut python, &report, self)?;
            if script.last {
                python.call("close")?;
            }
        }
        Ok(report)
    }

    fn interrupt(&self, anchors: &Anchors, interrupt: Interrupt) -> Result<Vec<InterruptWrite>, DriverError> {
        interrupt::interrupt_writes(anchors, interrupt)
    }

    fn get_variable(
        &self,
        machine: &mut dyn Machine,
        anchors: &Anchors,
        name: &str,
    ) -> Result<Result<Option<GuestValue>, RaisedOutcome>, DriverError> {
        let mut python = Interpreter::new(machine, anchors);
        python.renew_if_due()?;
        if !python.send(name.as_bytes())? {
            return Ok(Err(no_memory("the name")));
        }
        let reply = python.call("get_variable")?;
        reply.map_or(Ok(Ok(None)), |reply| decode_variable(&reply))
    }

    fn set_variable(
        &self,
        machine: &mut dyn Machine,
        anchors: &Anchors,
        name: &str,
        json: &str,
    ) -> Result<Result<(), RaisedOutcome>, DriverError> {
        let mut python = Interpreter::new(machine, anchors);
        // The finalizer of the replaced value can draw random numbers.
        python.renew_if_due()?;
        if !python.send(&framed([name, json]))? {
            return Ok(Err(no_memory("the value")));
        }
        let reply = python.call("set_variable")?;
        reply.map_or(Ok(Ok(())), |reply| Ok(decode_variable(&reply)?.map(drop)))
    }

    fn validate(
        &self,
        machine: &mut dyn Machine,
        anchors: &Anchors,
        script: &Script<'_>,
    ) -> Result<Vec<Diagnostic>, DriverError> {
        let mut python = Interpreter::new(machine, anchors);
        let (source, indentation) = source_of(script);
        if !python.send(&framed([script.name, source.as_ref()]))? {
            let message = "MemoryError: the source does not fit into the guest's memory".to_owned();
            return Ok(vec![Diagnostic { line: 1, column: 1, message }]);
        }
        let reply = python.call("validate")?;
        let Some(reply) = reply else { return Ok(Vec::new()) };
        let mut diagnostic = decode_diagnostic(&reply)?;
        diagnostic.column = diagnostic.column.saturating_add(indentation);
        Ok(vec![diagnostic])
    }

    fn flush_streams(&self, machine: &mut dyn Machine, anchors: &Anchors) -> Result<(), DriverError> {
        let mut python = Interpreter::new(machine, anchors);
        python.drop_interrupt(anchors)?;
        python.take_lock()?;
        python.call("flush_streams").map(drop)
    }

    fn close(&self, machine: &mut dyn Machine, anchors: &Anchors) -> Result<(), DriverError> {
        let mut python = Interpreter::new(machine, anchors);
        python.renew_if_due()?;
        python.call("close").map(drop)
    }
}

/// Returns the text to compile, and the number of columns of indentation removed from it.
fn source_of<'s>(script: &Script<'s>) -> (Cow<'s, str>, u32) {
    // CPython skips a byte order mark at the start of a file, but not of a string.
    let source = script.source.strip_prefix('\u{feff}').unwrap_or(script.source);
    let is_file = !(script.name.starts_with('<') && script.name.ends_with('>'));
    if is_file { (Cow::Borrowed(source), 0) } else { dedented(source) }
}

/// Removes the indentation that all lines share, as `python -c` does since 3.14. Also returns the indentation's length.
fn dedented(source: &str) -> (Cow<'_, str>, u32) {
    let blank = |line: &str| line.trim_matches([' ', '\t', '\r']).is_empty();
    let indentation = |line: &str| line.len() - line.trim_start_matches([' ', '\t']).len();
    let mut lines = source.split('\n').filter(|line| !blank(line));
    let first = lines.next().unwrap_or_default();
    let mut shared = first.get(..indentation(first)).unwrap_or_default();
    for line in lines {
        if shared.is_empty() {
            break;
        }
        let same = shared.bytes().zip(line.bytes()).take_while(|(one, other)| one == other).count();
        shared = shared.get(..same).unwrap_or_default();
    }
    if shared.is_empty() {
        return (Cow::Borrowed(source), 0);
    }
    let lines =
        source.split('\n').map(|line| if blank(line) { "" } else { line.get(shared.len()..).unwrap_or_default() });
    (Cow::Owned(lines.collect::<Vec<_>>().join("\n")), u32::try_from(shared.len()).unwrap_or(u32::MAX))
}

/// Encodes the request that `run_with` in `boot/driver.py` decodes.
fn request(script: &Script<'_>, source: &str) -> Vec<u8> {
    let flags = if script.has_stdin { "i" } else { "" };
    let count = script.args.len().to_string();
    let args = script.args.iter().map(String::as_str);
    let env = script.env.iter().flat_map(|(name, value)| [name.as_str(), value.as_str()]);
    framed([flags, script.name, source, &count].into_iter().chain(args).chain(env))
}

fn no_memory(what: &str) -> RaisedOutcome {
    RaisedOutcome {
        type_name: "MemoryError".to_owned(),
        message: format!("{what} does not fit into the guest's memory"),
        ..RaisedOutcome::default()
    }
}

/// The form of a binary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// A command, 3.12: it runs a script and exits. The command is parked before its exit.
    Command,
    /// A reactor, 3.15: its functions create an interpreter, run code in it, and return.
    Reactor,
}

impl Form {
    /// Returns the reference count of an object that is never freed.
    fn immortal_refcount(self) -> u32 {
        match self {
            Self::Command => IMMORTAL,
            Self::Reactor => IMMORTAL_SINCE_3_14,
        }
    }
}

/// Packages written for this project, by path below `/app/site-packages`, sorted.
pub const EMBEDDED_PACKAGES: &[(&str, &[u8])] = &[
    ("requests/__init__.py", include_bytes!("site/requests/__init__.py")),
    ("requests/auth.py", include_bytes!("site/requests/auth.py")),
    ("requests/cookies.py", include_bytes!("site/requests/cookies.py")),
    ("requests/exceptions.py", include_bytes!("site/requests/exceptions.py")),
    ("requests/models.py", include_bytes!("site/requests/models.py")),
    ("requests/sessions.py", include_bytes!("site/requests/sessions.py")),
    ("requests/structures.py", include_bytes!("site/requests/structures.py")),
    ("sandbox_utils/__init__.py", include_bytes!("site/sandbox_utils/__init__.py")),
    ("sandbox_utils/data.py", include_bytes!("site/sandbox_utils/data.py")),
    ("sandbox_utils/files.py", include_bytes!("site/sandbox_utils/files.py")),
    ("sandbox_utils/formats.py", include_bytes!("site/sandbox_utils/formats.py")),
    ("sandbox_utils/paths.py", include_bytes!("site/sandbox_utils/paths.py")),
    ("sandbox_utils/shell.py", include_bytes!("site/sandbox_utils/shell.py")),
    ("sandbox_utils/text.py", include_bytes!("site/sandbox_utils/text.py")),
    ("sandbox_utils/yaml_reader.py", include_bytes!("site/sandbox_utils/yaml_reader.py")),
    ("sandbox_utils/yaml_writer.py", include_bytes!("site/sandbox_utils/yaml_writer.py")),
];

/// The script that compiles the packages mounted at their path.
const COMPILER: &str = include_str!("compile.py");

/// Returns the arguments for the compiling interpreter, which writes its output to the workspace.
fn compiler_args() -> Vec<String> {
    ["python", "-c", COMPILER, "/app/site-packages", &format!("/app/{COMPILED_FILE}")].map(str::to_owned).to_vec()
}

/// Runs [`COMPILER`] in a command that was started with [`compiler_args`].
fn compile(machine: &mut dyn Machine) -> Result<(), DriverError> {
    match machine.call(Callee::Export("_start"), &[]) {
        Ok(_) | Err(MachineError::Stopped(Stop::Exit(0))) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Decodes the output of [`COMPILER`].
fn compiled(written: &[u8]) -> Result<Vec<(String, Vec<u8>)>, DriverError> {
    let parts = fields(written)?;
    let pairs = parts.chunks(2).map(|pair| match pair {
        [path, bytes] => Ok((String::from_utf8_lossy(path).into_owned(), bytes.to_vec())),
        _ => Err(DriverError::Boot("the last path in the compiled packages has no content".to_owned())),
    });
    pairs.collect()
}
