//! The input and output of a language interpreter, and the traits of its driver.

use glovebox_vfs::{escaped, escaped_text};
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{Machine, MachineError};

/// The grammar of a JavaScript source. Python ignores the grammar. The JSON form is the variant's name in lower case.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SourceKind {
    /// A module if the file name ends with `.mjs`, or if the source contains `import` or `export` and is not a valid
    /// script. Otherwise a script, which can use top-level `await`.
    #[default]
    Detect,
    /// A script (ECMA-262 *Script*).
    Script,
    /// A module (ECMA-262 *Module*). In a session, its declarations persist and it has a value, as for a script.
    Module,
}

/// The file in the workspace that a run with [`Boot::compiler_args`] writes.
pub const COMPILED_FILE: &str = "compiled";

/// The input of one execution.
#[derive(Clone, Copy, Debug)]
pub struct Script<'a> {
    /// The source text.
    pub source: &'a str,
    /// The file name in tracebacks and stacks. By convention, `<sandbox>` for a script without a file.
    pub name: &'a str,
    /// The grammar of a JavaScript source.
    pub kind: SourceKind,
    /// Arguments after the script's name (`sys.argv[1:]`, `scriptArgs.slice(1)`).
    pub args: &'a [String],
    /// The environment variables for this execution, added to the image's own.
    pub env: &'a BTreeMap<String, String>,
    /// `true` if the caller provided standard input. Otherwise, standard input is empty, and the driver need not reset
    /// the guest's reader.
    pub has_stdin: bool,
    /// `true` if the instance is dropped after the execution, so exit handlers (`atexit`, `threading._shutdown`) run
    /// now.
    pub last: bool,
    /// `true` to report the value of a trailing expression. The value is always computed.
    pub wants_value: bool,
    /// `true` if Python can import the packages at `/app/site-packages`. An instance that has run a script without the
    /// packages cannot use the packages later.
    pub inject_setup: bool,
    /// Maximum size, in bytes, of the globals that are restored from the workspace before the script and stored after
    /// it. `None` disables both. Only for instances that are dropped after the execution.
    pub persisted_bytes: Option<u64>,
}

static NO_VARIABLES: BTreeMap<String, String> = BTreeMap::new();

impl<'a> Script<'a> {
    /// Creates a script without arguments, variables or input, whose instance is reused afterwards.
    pub(crate) fn plain(source: &'a str, name: &'a str) -> Self {
        Self {
            source,
            name,
            kind: SourceKind::Detect,
            args: &[],
            env: &NO_VARIABLES,
            has_stdin: false,
            last: false,
            wants_value: false,
            inject_setup: true,
            persisted_bytes: None,
        }
    }
}

/// A value from the guest.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GuestValue {
    /// The value as the language prints it: `repr` in Python, an inspection in JavaScript. Long text is truncated.
    pub repr: String,
    /// The value as JSON text, if it consists of null, booleans, finite numbers, strings, lists, and objects with
    /// string keys. `None` otherwise, or if the text is too long. The text is untrusted: parse it before use.
    pub json: Option<String>,
}

/// The reason why a script is interrupted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interrupt {
    /// The fuel is nearly exhausted.
    Fuel,
    /// The timeout is near.
    Time,
    /// The caller cancelled the execution.
    Cancelled,
}

/// A change to a word in guest memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InterruptWrite {
    /// The address of the word.
    pub at: u32,
    /// The bits to set.
    pub word: u32,
    /// The bits to change. All others are preserved.
    pub mask: u32,
}

impl InterruptWrite {
    /// Creates a write that replaces the whole word.
    pub fn word(at: u32, word: u32) -> Self {
        Self { at, word, mask: u32::MAX }
    }

    /// Creates a write that sets these bits.
    pub fn bits(at: u32, bits: u32) -> Self {
        Self { at, word: bits, mask: bits }
    }

    /// Creates a write that sets the lowest bit.
    pub fn flag(at: u32) -> Self {
        Self::bits(at, 1)
    }

    /// Returns the word's new value, given its old value.
    pub fn apply(self, old: u32) -> u32 {
        old & !self.mask | self.word & self.mask
    }

    /// Returns `true` if the word still contains this write. `now` is the word's current value.
    pub fn is_pending(self, now: u32) -> bool {
        now & self.mask == self.word & self.mask
    }
}

/// An uncaught exception that ended a script.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RaisedOutcome {
    /// The exception's class (`ValueError`, `TypeError`, …). Empty for a thrown value that is not an object.
    #[serde(rename = "type")]
    pub type_name: String,
    /// The exception's message: `str(e)` or `e.message`.
    pub message: String,
    /// The traceback or stack as the interpreter prints it, without the driver's own frames.
    pub traceback: String,
    /// The line of the script that raised the exception, counted from 1; `None` if unknown.
    pub line: Option<u32>,
}

/// An interpreter's report of the end of a script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Report {
    /// The script ran to its end. Holds the value of its trailing expression, if it was requested and is not `None` or
    /// `undefined`.
    Completed(Option<GuestValue>),
    /// The script exited with this code (`sys.exit`, `std.exit`). The interpreter stays usable.
    Exited(i32),
    /// The script did not catch an exception, which was printed to the guest's standard error.
    Raised(RaisedOutcome),
    /// Like `Raised`, but for the exception that [`Driver::interrupt`] causes. The guest can forge this report.
    Interrupted(RaisedOutcome),
}

impl Report {
    /// Converts the report of an image's setup code. Anything but completion is an error.
    pub(crate) fn of_setup(self) -> Result<(), DriverError> {
        match self {
            Self::Completed(_) => Ok(()),
            Self::Exited(code) => Err(DriverError::Setup(format!(
                "it exited with code {code}; setup code must run to completion without calling `exit`"
            ))),
            Self::Raised(raised) | Self::Interrupted(raised) => Err(DriverError::Setup(raised.traceback)),
        }
    }
}

/// A parser's message about a source.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Diagnostic {
    /// The line, counted from 1.
    pub line: u32,
    /// The column in Unicode code points, counted from 1. The column is 1 if the parser does not report columns.
    pub column: u32,
    /// The parser's message, such as `SyntaxError: invalid syntax`.
    pub message: String,
}

/// Named addresses in a prepared image, such as the driver's functions, table slots and the context pointer.
///
/// Preparation records the addresses and stores them with the image. The addresses are not validated: a wrong address
/// makes the guest trap.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Anchors(pub BTreeMap<String, u32>);

impl Anchors {
    /// Returns the address of the anchor `name`. Fails if the image does not have this anchor.
    pub fn get(&self, name: &str) -> Result<u32, DriverError> {
        self.0.get(name).copied().ok_or_else(|| DriverError::Anchor(name.to_owned()))
    }
}

/// The reason why a driver failed. A script's failure is a [`Report`] and not an error.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DriverError {
    /// The machine failed, or the guest was unwound.
    #[error(transparent)]
    Machine(#[from] MachineError),
    /// The image does not have the anchor.
    #[error("the image has no address for `{name}`, which its driver needs", name = escaped(.0))]
    Anchor(String),
    /// The interpreter did not boot as its recipe describes.
    #[error("the interpreter did not boot as its recipe describes: {0}")]
    Boot(String),
    /// An image's setup code failed in the booted interpreter.
    #[error("the image's setup failed: {0}")]
    Setup(String),
    /// The guest returned a value that its driver never returns: a script has damaged the guest's memory.
    #[error("the guest's driver returned an invalid report: {name}", name = escaped_text(.0))]
    Report(String),
}

/// Operations of a prepared interpreter.
pub trait Driver: Send + Sync {
    /// Returns `true` if an exception means that the interpreter ran out of memory. Called only if memory was refused,
    /// because a script can throw the same exception.
    fn is_out_of_memory(&self, raised: &RaisedOutcome) -> bool;

    /// Makes a new instance of the image unique by reseeding its generators from the policy's entropy. Called once per
    /// instance, and again after a fork or resume. Calls no function of the guest.
    fn reseed(&self, machine: &mut dyn Machine, anchors: &Anchors) -> Result<(), DriverError>;

    /// Runs a script, and flushes its open files.
    fn execute(&self, machine: &mut dyn Machine, anchors: &Anchors, script: &Script<'_>)
    -> Result<Report, DriverError>;

    /// Returns the words to write to the memory of a running guest, in order. The words make the interpreter raise an
    /// exception in the script at its next check, and must be harmless if the guest's script has just ended.
    fn interrupt(&self, anchors: &Anchors, interrupt: Interrupt) -> Result<Vec<InterruptWrite>, DriverError>;

    /// Returns a global variable of a session's interpreter; `None` if the variable does not exist.
    fn get_variable(
        &self,
        machine: &mut dyn Machine,
        anchors: &Anchors,
        name: &str,
    ) -> Result<Result<Option<GuestValue>, RaisedOutcome>, DriverError>;

    /// Sets a global variable of a session's interpreter to the value of `json`.
    fn set_variable(
        &self,
        machine: &mut dyn Machine,
        anchors: &Anchors,
        name: &str,
        json: &str,
    ) -> Result<Result<(), RaisedOutcome>, DriverError>;

    /// Parses a source without running it. Called in a fresh instance.
    fn validate(
        &self,
        machine: &mut dyn Machine,
        anchors: &Anchors,
        script: &Script<'_>,
    ) -> Result<Vec<Diagnostic>, DriverError>;

    /// Flushes text that a script has printed and the interpreter still buffers. Called after the host stopped the
    /// script at an arbitrary instruction, so the instance is in an unknown state. The instance is dropped afterwards.
    /// Does nothing by default.
    fn flush_streams(&self, machine: &mut dyn Machine, anchors: &Anchors) -> Result<(), DriverError> {
        let _ = (machine, anchors);
        Ok(())
    }

    /// Runs the exit handlers of a session's interpreter before the instance is dropped.
    fn close(&self, machine: &mut dyn Machine, anchors: &Anchors) -> Result<(), DriverError>;
}

/// A driver that can also prepare an interpreter. The trait is separate, so that programs that only run images can omit
/// the code.
pub trait Boot: Driver {
    /// Returns the arguments for booting the unprepared binary.
    fn boot_args(&self) -> Vec<String>;

    /// Returns the environment for booting the unprepared binary.
    fn boot_env(&self) -> Vec<(String, String)>;

    /// Returns all code that determines the image. The code is part of the cache key of a prepared image.
    fn boot_code(&self) -> &[u8];

    /// Returns the arguments for running the unprepared binary, which compiles the mounted packages; `None` if there is
    /// nothing to compile. After the run, [`compiled_packages`](Self::compiled_packages) decodes the content of
    /// [`COMPILED_FILE`].
    fn compiler_args(&self) -> Option<Vec<String>> {
        None
    }

    /// Runs the unprepared binary to compile the packages. The instance must have been created with
    /// [`compiler_args`](Self::compiler_args).
    fn compile_packages(&self, machine: &mut dyn Machine) -> Result<(), DriverError> {
        let _ = machine;
        Ok(())
    }

    /// Decodes the output of a run with [`compiler_args`](Self::compiler_args) into files that are mounted next to the
    /// packages.
    fn compiled_packages(&self, _written: &[u8]) -> Result<Vec<(String, Vec<u8>)>, DriverError> {
        Ok(Vec::new())
    }

    /// Boots the interpreter in a new instance of the unprepared module. Called once, during preparation, with a fixed
    /// clock and seeded entropy.
    fn boot(&self, machine: &mut dyn Machine) -> Result<Anchors, DriverError>;

    /// Runs an image's setup code in the booted interpreter. All scripts see the modules and global variables that the
    /// code leaves.
    ///
    /// # Errors
    /// [`DriverError::Setup`] if the code fails.
    fn set_up(&self, machine: &mut dyn Machine, anchors: &Anchors, source: &str) -> Result<(), DriverError>;

    /// Returns code for [`set_up`](Self::set_up) that loads modules without binding their names.
    fn preload_code(&self, modules: &[String]) -> String;

    /// Parks the booted interpreter, with its memory ready to be saved.
    fn settle(&self, machine: &mut dyn Machine, anchors: Anchors) -> Result<Anchors, DriverError>;
}
