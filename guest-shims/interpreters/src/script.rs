//! What goes into an interpreter and what comes out, in the same words for every language.

use glovebox_vfs::{escaped, escaped_text};
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{Machine, MachineError};

/// How JavaScript source is to be understood. Python has only scripts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SourceKind {
    /// A module if the source uses `import`, `export` or top-level `await` and is no valid script, else a script.
    #[default]
    Detect,
    /// A script (ECMA-262 *Script*).
    Script,
    /// A module (ECMA-262 *Module*).
    Module,
}

/// The file in the workspace that a run with [`Boot::compiler_args`] leaves.
pub const COMPILED_FILE: &str = "compiled";

/// One execution's input.
#[derive(Clone, Copy, Debug)]
pub struct Script<'a> {
    /// The source text.
    pub source: &'a str,
    /// The file name that tracebacks and stacks show; `<sandbox>` by convention when there is no file.
    pub name: &'a str,
    /// How JavaScript is to be understood.
    pub kind: SourceKind,
    /// Arguments after the script's name (`sys.argv[1:]`, `scriptArgs.slice(1)`).
    pub args: &'a [String],
    /// Environment variables set for this execution, beside the image's own.
    pub env: &'a [(String, String)],
    /// Whether standard input was given (otherwise it is at its end, and the driver need not reset the guest's reader).
    pub has_stdin: bool,
    /// Whether the instance is dropped afterwards: exit handlers (`atexit`, `threading._shutdown`) run now.
    pub last: bool,
    /// Whether the value of a trailing expression is reported. It is computed either way.
    pub wants_value: bool,
    /// Whether Python finds packages at `/app/site-packages`. An instance that did not once does not later.
    pub inject_setup: bool,
    /// How many bytes the globals may take that are found in the workspace before the script and left there after it. None:
    /// there are none. For instances that are dropped afterwards.
    pub persisted_bytes: Option<u64>,
}

/// A value of the guest's.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GuestValue {
    /// As the language shows it: `repr` in Python, an inspection in JavaScript. Long ones are cut.
    pub repr: String,
    /// The value as JSON text, where it is JSON: null, booleans, finite numbers, strings, lists, and objects with
    /// strings for keys. None where it is not, or is too long. The text is the guest's: parse it before use.
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

/// A word to write into guest memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Poke {
    /// Where.
    pub at: u32,
    /// What.
    pub word: u32,
}

/// An exception that ended a script.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Raised {
    /// The exception's class (`ValueError`, `TypeError`, …), empty for a thrown value that is no object.
    pub type_name: String,
    /// Its message, `str(e)` or `e.message`.
    pub message: String,
    /// The formatted traceback or stack as the interpreter prints it, without the driver's own frames.
    pub traceback: String,
    /// The user's line it was raised at, counted from 1, where known.
    pub line: Option<u32>,
}

/// What a script did, as its interpreter reports it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Report {
    /// It ran to its end; the value of its trailing expression, if it was asked for and is one that is shown (not
    /// `None` or `undefined`).
    Completed(Option<GuestValue>),
    /// It ended itself with this code (`sys.exit`, `std.exit`). The interpreter lives on.
    Exited(i32),
    /// An exception reached the top. It has already been printed to the guest's standard error.
    Raised(Raised),
    /// The exception that stands for [`Driver::interrupt`] reached the top: as `Raised`. The guest can make it up.
    Interrupted(Raised),
}

/// One thing the guest's own parser says about a source.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Diagnostic {
    /// Line, counted from 1.
    pub line: u32,
    /// Column in Unicode code points, counted from 1; 1 where the parser names none.
    pub column: u32,
    /// The parser's message, such as `SyntaxError: invalid syntax`.
    pub message: String,
}

/// Named addresses in a prepared image (the driver's object, its table slot, the context pointer, …).
///
/// Stored beside the image. They come from our own preparation, and are validated by use: a wrong one
/// makes the guest trap.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Anchors(pub BTreeMap<String, u32>);

impl Anchors {
    /// The anchor called `name`.
    pub fn get(&self, name: &str) -> Result<u32, DriverError> {
        self.0.get(name).copied().ok_or_else(|| DriverError::Anchor(name.to_owned()))
    }
}

/// Why a driver could not do its work: never the script's own failure.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DriverError {
    /// The machine could not, or the guest was unwound.
    #[error(transparent)]
    Machine(#[from] MachineError),
    /// The image lacks an anchor.
    #[error("the prepared image has no anchor `{name}`; prepare it again", name = escaped(.0))]
    Anchor(String),
    /// The interpreter did not do what its recipe says, at preparation.
    #[error("the interpreter did not boot as its recipe says: {0}")]
    Boot(String),
    /// The guest sent back something its driver never sends: it damaged itself.
    #[error("the guest's driver sent no usable report: {name}", name = escaped_text(.0))]
    Report(String),
}

/// How one prepared interpreter is called.
pub trait Driver: Send + Sync {
    /// Whether an exception says that the interpreter got no more memory.
    /// Only asked where memory was refused: a script can throw what looks the same.
    fn is_out_of_memory(&self, raised: &Raised) -> bool;

    /// Makes a new instance of the image its own: generators reseeded from the policy's entropy.
    /// Called once per instance, and again after a fork or resume.
    fn reseed(&self, machine: &mut dyn Machine, anchors: &Anchors) -> Result<(), DriverError>;

    /// Runs a script and flushes what it left open.
    fn execute(&self, machine: &mut dyn Machine, anchors: &Anchors, script: &Script<'_>)
    -> Result<Report, DriverError>;

    /// What to write into the memory of a guest that is running, to have the interpreter raise an exception in the
    /// script at the next point where it looks: the words that say so, in this order. Writing them in a guest that
    /// has just ended its script must do no harm.
    fn interrupt(&self, anchors: &Anchors, interrupt: Interrupt) -> Result<Vec<Poke>, DriverError>;

    /// What to write into the memory of a guest that is running, to have the interpreter leave its innermost loop for a
    /// moment, without anything coming of it. An engine that counts fuel in a register saves the count at calls only, and
    /// could not see how much is left to a script that makes none. Default: nothing, for an interpreter that calls a
    /// function now and then whatever its script does.
    fn nudge(&self, anchors: &Anchors) -> Result<Vec<Poke>, DriverError> {
        let _ = anchors;
        Ok(Vec::new())
    }

    /// A global variable of a kept interpreter; none where there is no such.
    fn get_variable(
        &self,
        machine: &mut dyn Machine,
        anchors: &Anchors,
        name: &str,
    ) -> Result<Result<Option<GuestValue>, Raised>, DriverError>;

    /// Sets a global variable of a kept interpreter to what `json` says.
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

    /// Runs the exit handlers of a kept interpreter before it is dropped.
    fn close(&self, machine: &mut dyn Machine, anchors: &Anchors) -> Result<(), DriverError>;
}

/// How one interpreter is booted. Only preparation needs it, and whoever only runs images need not have the code.
pub trait Boot: Driver {
    /// The arguments that the unprepared binary is booted with.
    fn boot_args(&self) -> Vec<String>;

    /// The environment that the unprepared binary is booted with.
    fn boot_env(&self) -> Vec<(String, String)>;

    /// All code that shapes the image: part of a prepared image's cache key.
    fn boot_code(&self) -> &[u8];

    /// The arguments of a run of the unprepared binary that compiles the packages which are mounted, if packages are imported
    /// at boot. Afterwards [`compiled_packages`](Self::compiled_packages) finds what it wrote to [`COMPILED_FILE`].
    fn compiler_args(&self) -> Option<Vec<String>> {
        None
    }

    /// What a run with [`compiler_args`](Self::compiler_args) wrote, as files to be mounted beside the packages.
    fn compiled_packages(&self, _written: &[u8]) -> Result<Vec<(String, Vec<u8>)>, DriverError> {
        Ok(Vec::new())
    }

    /// Boots the interpreter in a new instance of the unprepared module and leaves it parked, its
    /// memory ready to be saved. Called once, at preparation, under a fixed clock and seeded entropy.
    fn boot(&self, machine: &mut dyn Machine) -> Result<Anchors, DriverError>;
}
