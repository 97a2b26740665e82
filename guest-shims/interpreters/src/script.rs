//! The input and output of an interpreter, independent of the language.

use glovebox_vfs::{escaped, escaped_text};
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{Machine, MachineError};

/// The grammar of a JavaScript source. Python has only scripts. The JSON form is the variant's name in lower case.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SourceKind {
    /// A module if the source uses `import`, `export` or top-level `await` and is not a valid script, otherwise a
    /// script.
    #[default]
    Detect,
    /// A script (ECMA-262 *Script*).
    Script,
    /// A module (ECMA-262 *Module*).
    Module,
}

/// The file in the workspace written by a run with [`Boot::compiler_args`].
pub const COMPILED_FILE: &str = "compiled";

/// The input of one execution.
#[derive(Clone, Copy, Debug)]
pub struct Script<'a> {
    /// The source text.
    pub source: &'a str,
    /// The file name in tracebacks and stacks; by convention `<sandbox>` without a file.
    pub name: &'a str,
    /// The grammar of a JavaScript source.
    pub kind: SourceKind,
    /// Arguments after the script's name (`sys.argv[1:]`, `scriptArgs.slice(1)`).
    pub args: &'a [String],
    /// Environment variables for this execution, in addition to the image's own.
    pub env: &'a BTreeMap<String, String>,
    /// `true` if standard input was given. Otherwise it is empty, and the driver need not reset the guest's reader.
    pub has_stdin: bool,
    /// `true` if the instance is dropped afterwards, so that exit handlers (`atexit`, `threading._shutdown`) run now.
    pub last: bool,
    /// Requests a report of the value of a trailing expression, which is computed in any case.
    pub wants_value: bool,
    /// Makes packages at `/app/site-packages` importable in Python. Once an instance has run without them, it cannot
    /// use them later.
    pub inject_setup: bool,
    /// Maximum size of the globals that are restored from the workspace before the script and stored after it, in
    /// bytes. `None` disables both. Only for instances that are dropped afterwards.
    pub persisted_bytes: Option<u64>,
}

/// A value from the guest.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GuestValue {
    /// The value as the language prints it: `repr` in Python, an inspection in JavaScript. Long values are truncated.
    pub repr: String,
    /// The value as JSON text, if it is JSON: null, booleans, finite numbers, strings, lists, and objects with string
    /// keys. `None` otherwise, or if it is too long. The text comes from the guest: parse it before use.
    pub json: Option<String>,
}

/// The reason for interrupting a script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interrupt {
    /// The fuel is nearly exhausted.
    Fuel,
    /// The timeout is near.
    Time,
    /// The caller cancelled the execution.
    Cancelled,
}

/// A word of guest memory to change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Poke {
    /// The address of the word.
    pub at: u32,
    /// The bits to set.
    pub word: u32,
    /// The bits to change; the others are preserved.
    pub mask: u32,
}

impl Poke {
    /// Returns a poke that replaces the whole word.
    #[must_use]
    pub fn word(at: u32, word: u32) -> Self {
        Self { at, word, mask: u32::MAX }
    }

    /// Returns a poke that sets these bits.
    #[must_use]
    pub fn bits(at: u32, bits: u32) -> Self {
        Self { at, word: bits, mask: bits }
    }

    /// Returns a poke that sets the lowest bit.
    #[must_use]
    pub fn flag(at: u32) -> Self {
        Self::bits(at, 1)
    }

    /// Returns the new value of the word, given its old value.
    #[must_use]
    pub fn apply(self, old: u32) -> u32 {
        old & !self.mask | self.word & self.mask
    }

    /// Returns whether the word still has the value of this poke.
    #[must_use]
    pub fn is_pending(self, now: u32) -> bool {
        now & self.mask == self.word & self.mask
    }
}

/// An exception that ended a script.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Raised {
    /// The exception's class (`ValueError`, `TypeError`, …), empty for a thrown value that is not an object.
    pub type_name: String,
    /// The message, `str(e)` or `e.message`.
    pub message: String,
    /// The formatted traceback or stack as the interpreter prints it, without the driver's own frames.
    pub traceback: String,
    /// The line of the script that raised it, counted from 1, if known.
    pub line: Option<u32>,
}

/// An interpreter's report of a script's end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Report {
    /// The script ran to its end. Holds the value of its trailing expression, if it was requested and is not `None` or
    /// `undefined`.
    Completed(Option<GuestValue>),
    /// The script exited with this code (`sys.exit`, `std.exit`). The interpreter stays usable.
    Exited(i32),
    /// An exception was not caught. It has already been printed to the guest's standard error.
    Raised(Raised),
    /// The exception of [`Driver::interrupt`] was not caught. Otherwise like `Raised`. The guest can forge this report.
    Interrupted(Raised),
}

impl Report {
    /// Converts the report of an image's own code, which must run to its end.
    pub(crate) fn of_setup(self) -> Result<(), DriverError> {
        match self {
            Self::Completed(_) => Ok(()),
            Self::Exited(code) => {
                Err(DriverError::Setup(format!("it exited with code {code}, and must run to its end")))
            }
            Self::Raised(raised) | Self::Interrupted(raised) => Err(DriverError::Setup(raised.traceback)),
        }
    }
}

/// A message of the guest's own parser about a source.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Diagnostic {
    /// The line, counted from 1.
    pub line: u32,
    /// The column in Unicode code points, counted from 1; 1 if the parser reports none.
    pub column: u32,
    /// The parser's message, such as `SyntaxError: invalid syntax`.
    pub message: String,
}

/// Named addresses in a prepared image (the driver's object, its table slot, the context pointer, …).
///
/// The addresses come from preparation, are stored with the image, and are validated by use: a wrong address makes the
/// guest trap.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Anchors(pub BTreeMap<String, u32>);

impl Anchors {
    /// Returns the anchor called `name`.
    pub fn get(&self, name: &str) -> Result<u32, DriverError> {
        self.0.get(name).copied().ok_or_else(|| DriverError::Anchor(name.to_owned()))
    }
}

/// The reason why a driver failed. A script's failure is never one.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DriverError {
    /// The machine failed, or the guest was unwound.
    #[error(transparent)]
    Machine(#[from] MachineError),
    /// The anchor does not exist in the image.
    #[error("the prepared image has no anchor `{name}`; prepare it again", name = escaped(.0))]
    Anchor(String),
    /// During preparation, the interpreter deviated from its recipe.
    #[error("the interpreter did not boot as its recipe describes: {0}")]
    Boot(String),
    /// An image's own code failed in the booted interpreter.
    #[error("the image's setup failed: {0}")]
    Setup(String),
    /// The guest returned a value that its driver never returns: it damaged itself.
    #[error("the guest's driver returned no usable report: {name}", name = escaped_text(.0))]
    Report(String),
}

/// Calls into one prepared interpreter.
pub trait Driver: Send + Sync {
    /// Returns whether an exception means that the interpreter was refused memory. Only called if memory was refused,
    /// because a script can throw an equal exception.
    fn is_out_of_memory(&self, raised: &Raised) -> bool;

    /// Makes a new instance of the image unique: reseeds its generators from the policy's entropy. Called once per
    /// instance, and again after a fork or resume.
    fn reseed(&self, machine: &mut dyn Machine, anchors: &Anchors) -> Result<(), DriverError>;

    /// Runs a script and flushes its open files.
    fn execute(&self, machine: &mut dyn Machine, anchors: &Anchors, script: &Script<'_>)
    -> Result<Report, DriverError>;

    /// Returns the words, in order, to write into the memory of a running guest. They make the interpreter raise an
    /// exception in the script at its next check. They must be harmless to a guest that has just ended its script.
    fn interrupt(&self, anchors: &Anchors, interrupt: Interrupt) -> Result<Vec<Poke>, DriverError>;

    /// Returns a global variable of a session's interpreter; `None` if it does not exist.
    fn get_variable(
        &self,
        machine: &mut dyn Machine,
        anchors: &Anchors,
        name: &str,
    ) -> Result<Result<Option<GuestValue>, Raised>, DriverError>;

    /// Sets a global variable of a session's interpreter to the value of `json`.
    fn set_variable(
        &self,
        machine: &mut dyn Machine,
        anchors: &Anchors,
        name: &str,
        json: &str,
    ) -> Result<Result<(), Raised>, DriverError>;

    /// Parses a source without running any of it. Called in a fresh instance.
    fn validate(
        &self,
        machine: &mut dyn Machine,
        anchors: &Anchors,
        script: &Script<'_>,
    ) -> Result<Vec<Diagnostic>, DriverError>;

    /// Writes out text that a script has printed and the interpreter still buffers. Called after the host stopped the
    /// script at any instruction. The instance is in an unknown state and is dropped afterwards. Default: nothing, for
    /// an interpreter without buffers.
    fn flush_streams(&self, machine: &mut dyn Machine, anchors: &Anchors) -> Result<(), DriverError> {
        let _ = (machine, anchors);
        Ok(())
    }

    /// Runs the exit handlers of a session's interpreter before it is dropped.
    fn close(&self, machine: &mut dyn Machine, anchors: &Anchors) -> Result<(), DriverError>;
}

/// Boots one interpreter. Only preparation needs it, so programs that only run images can leave the code out.
pub trait Boot: Driver {
    /// Returns the arguments for booting the unprepared binary.
    fn boot_args(&self) -> Vec<String>;

    /// Returns the environment for booting the unprepared binary.
    fn boot_env(&self) -> Vec<(String, String)>;

    /// Returns all code that determines the image. It is part of a prepared image's cache key.
    fn boot_code(&self) -> &[u8];

    /// Returns the arguments of a run of the unprepared binary that compiles the mounted packages, if packages are
    /// imported at boot. Afterwards, [`compiled_packages`](Self::compiled_packages) decodes the content of
    /// [`COMPILED_FILE`].
    fn compiler_args(&self) -> Option<Vec<String>> {
        None
    }

    /// Runs the unprepared binary, in an instance with [`compiler_args`](Self::compiler_args), to compile the packages.
    fn compile_packages(&self, machine: &mut dyn Machine) -> Result<(), DriverError> {
        let _ = machine;
        Ok(())
    }

    /// Decodes the output of a run with [`compiler_args`](Self::compiler_args) into files to mount next to the
    /// packages.
    fn compiled_packages(&self, _written: &[u8]) -> Result<Vec<(String, Vec<u8>)>, DriverError> {
        Ok(Vec::new())
    }

    /// Boots the interpreter in a new instance of the unprepared module. Called once, during preparation, under a fixed
    /// clock and seeded entropy.
    fn boot(&self, machine: &mut dyn Machine) -> Result<Anchors, DriverError>;

    /// Runs an image's own code in the booted interpreter. Every script sees the modules and global variables that it
    /// leaves.
    ///
    /// # Errors
    /// [`DriverError::Setup`] if the code fails.
    fn set_up(&self, machine: &mut dyn Machine, anchors: &Anchors, source: &str) -> Result<(), DriverError>;

    /// Returns code for [`set_up`](Self::set_up) that loads modules without binding their names.
    fn preload_code(&self, modules: &[String]) -> String;

    /// Leaves the booted interpreter parked, with its memory ready to be saved.
    fn settle(&self, machine: &mut dyn Machine, anchors: Anchors) -> Result<Anchors, DriverError>;
}
