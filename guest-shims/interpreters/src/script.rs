//! The input and output of an interpreter, in the same terms for every language.

use glovebox_vfs::{escaped, escaped_text};
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{Machine, MachineError};

/// How to interpret JavaScript source. Python has only scripts. In JSON the variant's name in lower case.
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

/// The file in the workspace that a run with [`Boot::compiler_args`] writes.
pub const COMPILED_FILE: &str = "compiled";

/// One execution's input.
#[derive(Clone, Copy, Debug)]
pub struct Script<'a> {
    /// The source text.
    pub source: &'a str,
    /// The file name in tracebacks and stacks; by convention `<sandbox>` when there is no file.
    pub name: &'a str,
    /// How to interpret JavaScript.
    pub kind: SourceKind,
    /// Arguments after the script's name (`sys.argv[1:]`, `scriptArgs.slice(1)`).
    pub args: &'a [String],
    /// Environment variables set for this execution, beside the image's own.
    pub env: &'a BTreeMap<String, String>,
    /// Whether standard input was given (otherwise it is empty, and the driver need not reset the guest's reader).
    pub has_stdin: bool,
    /// Whether the instance is dropped afterwards: exit handlers (`atexit`, `threading._shutdown`) then run now.
    pub last: bool,
    /// Whether to report the value of a trailing expression. It is computed either way.
    pub wants_value: bool,
    /// Whether Python finds packages at `/app/site-packages`. Once an instance has run without them, it cannot use them
    /// later.
    pub inject_setup: bool,
    /// The maximum size of the globals that are restored from the workspace before the script and stored after it.
    /// `None` disables both. For instances that are dropped afterwards.
    pub persisted_bytes: Option<u64>,
}

/// A value from the guest.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GuestValue {
    /// As the language shows it: `repr` in Python, an inspection in JavaScript. Long ones are truncated.
    pub repr: String,
    /// The value as JSON text, if it is JSON: null, booleans, finite numbers, strings, lists, and objects with string
    /// keys. `None` otherwise, or if it is too long. The text comes from the guest: parse it before use.
    pub json: Option<String>,
}

/// Why a script is asked to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interrupt {
    /// Its fuel is nearly used up.
    Fuel,
    /// Its time is nearly over.
    Time,
    /// Its caller cancelled it.
    Cancelled,
}

/// A word of guest memory to change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Poke {
    /// The address.
    pub at: u32,
    /// The bits to set.
    pub word: u32,
    /// The bits to change; the others stay.
    pub mask: u32,
}

impl Poke {
    /// Replaces the whole word.
    #[must_use]
    pub fn word(at: u32, word: u32) -> Self {
        Self { at, word, mask: u32::MAX }
    }

    /// Sets these bits.
    #[must_use]
    pub fn bits(at: u32, bits: u32) -> Self {
        Self { at, word: bits, mask: bits }
    }

    /// Sets the lowest bit.
    #[must_use]
    pub fn flag(at: u32) -> Self {
        Self::bits(at, 1)
    }

    /// The word after this, where it is `old` now.
    #[must_use]
    pub fn apply(self, old: u32) -> u32 {
        old & !self.mask | self.word & self.mask
    }

    /// Whether the word is still as this left it.
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
    /// Its message, `str(e)` or `e.message`.
    pub message: String,
    /// The formatted traceback or stack as the interpreter prints it, without the driver's own frames.
    pub traceback: String,
    /// The user's line that raised it, counted from 1, if known.
    pub line: Option<u32>,
}

/// What a script did, as its interpreter reports it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Report {
    /// It ran to its end; with the value of its trailing expression, if that was requested and is shown (not `None` or
    /// `undefined`).
    Completed(Option<GuestValue>),
    /// It exited with this code (`sys.exit`, `std.exit`). The interpreter stays usable.
    Exited(i32),
    /// An exception was not caught. It has already been printed to the guest's standard error.
    Raised(Raised),
    /// The exception of [`Driver::interrupt`] was not caught: as for `Raised`. The guest can forge it.
    Interrupted(Raised),
}

impl Report {
    /// What came of an image's own code, which must run to its end.
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

/// One message of the guest's own parser about a source.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Diagnostic {
    /// Line, counted from 1.
    pub line: u32,
    /// Column in Unicode code points, counted from 1; 1 if the parser names none.
    pub column: u32,
    /// The parser's message, such as `SyntaxError: invalid syntax`.
    pub message: String,
}

/// Named addresses in a prepared image (the driver's object, its table slot, the context pointer, …).
///
/// Stored beside the image. They come from preparation, and are validated by use: a wrong one makes the guest trap.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Anchors(pub BTreeMap<String, u32>);

impl Anchors {
    /// The anchor called `name`.
    pub fn get(&self, name: &str) -> Result<u32, DriverError> {
        self.0.get(name).copied().ok_or_else(|| DriverError::Anchor(name.to_owned()))
    }
}

/// Why a driver failed: never the script's own failure.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DriverError {
    /// The machine failed, or the guest was unwound.
    #[error(transparent)]
    Machine(#[from] MachineError),
    /// The image lacks an anchor.
    #[error("the prepared image has no anchor `{name}`; prepare it again", name = escaped(.0))]
    Anchor(String),
    /// At preparation, the interpreter did not behave as its recipe says.
    #[error("the interpreter did not boot as its recipe describes: {0}")]
    Boot(String),
    /// An image's own code failed in the booted interpreter.
    #[error("the image's setup failed: {0}")]
    Setup(String),
    /// The guest returned something its driver never returns: it damaged itself.
    #[error("the guest's driver returned no usable report: {name}", name = escaped_text(.0))]
    Report(String),
}

/// Calls into one prepared interpreter.
pub trait Driver: Send + Sync {
    /// Whether an exception means that the interpreter got no more memory. Only asked if memory was refused: a script
    /// can throw what looks the same.
    fn is_out_of_memory(&self, raised: &Raised) -> bool;

    /// Makes a new instance of the image unique: reseeds its generators from the policy's entropy. Called once per
    /// instance, and again after a fork or resume.
    fn reseed(&self, machine: &mut dyn Machine, anchors: &Anchors) -> Result<(), DriverError>;

    /// Runs a script and flushes its open files.
    fn execute(&self, machine: &mut dyn Machine, anchors: &Anchors, script: &Script<'_>)
    -> Result<Report, DriverError>;

    /// The words to write into the memory of a running guest, in this order, so that the interpreter raises an
    /// exception in the script at the next point where it checks. Writing them to a guest that has just ended its
    /// script must do no harm.
    fn interrupt(&self, anchors: &Anchors, interrupt: Interrupt) -> Result<Vec<Poke>, DriverError>;

    /// The words to write into the memory of a running guest so that the interpreter leaves its innermost loop for a
    /// moment, without further effect. An engine that counts fuel in a register saves the count at calls only, and
    /// could not see how much is left to a script that makes none. Default: none, for an interpreter that calls a
    /// function periodically whatever its script does.
    fn nudge(&self, anchors: &Anchors) -> Result<Vec<Poke>, DriverError> {
        let _ = anchors;
        Ok(Vec::new())
    }

    /// A global variable of a session's interpreter; `None` if it does not exist.
    fn get_variable(
        &self,
        machine: &mut dyn Machine,
        anchors: &Anchors,
        name: &str,
    ) -> Result<Result<Option<GuestValue>, Raised>, DriverError>;

    /// Sets a global variable of a session's interpreter from `json`.
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

    /// Writes out the text that a script has printed and the interpreter still holds. Called after the host stopped the
    /// script at any instruction: the instance is in no known state, and is dropped afterwards. Default: nothing, for
    /// an interpreter that holds none.
    fn flush_streams(&self, machine: &mut dyn Machine, anchors: &Anchors) -> Result<(), DriverError> {
        let _ = (machine, anchors);
        Ok(())
    }

    /// Runs the exit handlers of a session's interpreter before it is dropped.
    fn close(&self, machine: &mut dyn Machine, anchors: &Anchors) -> Result<(), DriverError>;
}

/// Boots one interpreter. Only preparation needs it, so programs that only run images can leave the code out.
pub trait Boot: Driver {
    /// The arguments for booting the unprepared binary.
    fn boot_args(&self) -> Vec<String>;

    /// The environment for booting the unprepared binary.
    fn boot_env(&self) -> Vec<(String, String)>;

    /// All code that determines the image: part of a prepared image's cache key.
    fn boot_code(&self) -> &[u8];

    /// The arguments of a run of the unprepared binary that compiles the mounted packages, if packages are imported at
    /// boot. Afterwards [`compiled_packages`](Self::compiled_packages) decodes what it wrote to [`COMPILED_FILE`].
    fn compiler_args(&self) -> Option<Vec<String>> {
        None
    }

    /// Runs the unprepared binary, in an instance with [`compiler_args`](Self::compiler_args), so that it compiles the packages.
    fn compile_packages(&self, machine: &mut dyn Machine) -> Result<(), DriverError> {
        let _ = machine;
        Ok(())
    }

    /// Decodes the output of a run with [`compiler_args`](Self::compiler_args) into files to be mounted beside the
    /// packages.
    fn compiled_packages(&self, _written: &[u8]) -> Result<Vec<(String, Vec<u8>)>, DriverError> {
        Ok(Vec::new())
    }

    /// Boots the interpreter in a new instance of the unprepared module. Called once, at preparation, under a fixed clock and seeded
    /// entropy.
    fn boot(&self, machine: &mut dyn Machine) -> Result<Anchors, DriverError>;

    /// Runs an image's own code in the booted interpreter: what it leaves in memory every script finds, modules and global variables.
    ///
    /// # Errors
    /// [`DriverError::Setup`] where the code fails.
    fn set_up(&self, machine: &mut dyn Machine, anchors: &Anchors, source: &str) -> Result<(), DriverError>;

    /// Code that loads modules and names none of them, for [`set_up`](Self::set_up).
    fn preload_code(&self, modules: &[String]) -> String;

    /// Leaves the booted interpreter parked, with its memory ready to be saved.
    fn settle(&self, machine: &mut dyn Machine, anchors: Anchors) -> Result<Anchors, DriverError>;
}
