//! Type checks of Python scripts before they run, with the embedder's checker
//! ([`ServiceConfig::type_checker`](crate::ServiceConfig::type_checker)).

use std::{error::Error, fmt};

use glovebox::{CancelToken, Diagnostic, Language, SessionVariable, Tool};

use crate::error_codes::{Code, INVALID, TOO_LARGE, TYPE_ERRORS, UNAVAILABLE, UNSUPPORTED};

/// Maximum length of a script whose types are checked, in bytes.
pub(crate) const MAX_CHECKED_BYTES: usize = 256 << 10;

/// Maximum number of type errors in a response. Later errors are usually consequences of the first error.
pub(crate) const MAX_TYPE_ERRORS: usize = 20;

/// Maximum number of concurrent type checks, each of which can need a processor and a lot of memory.
pub(crate) const MAX_TYPE_CHECKS: usize = 4;

/// A type checker for Python scripts. It does not run the scripts.
pub trait CheckTypes: fmt::Debug + Send + Sync {
    /// Returns the type errors of a script. The script, and the schemas of its tools, are untrusted, so a check must
    /// limit its time, its memory and the length of its messages. It runs on a blocking thread. If `cancel` is
    /// cancelled, the check must return soon, with any result.
    ///
    /// # Errors
    /// Fails if the check cannot run or exceeds its limits. The error is only for the service's log.
    fn check(
        &self,
        script: &TypedScript<'_>,
        cancel: &CancelToken,
    ) -> Result<Vec<Diagnostic>, Box<dyn Error + Send + Sync>>;
}

/// A Python script without syntax errors, and its environment.
#[derive(Clone, Copy, Debug)]
pub struct TypedScript<'a> {
    /// The source text.
    pub source: &'a str,
    /// The version of the interpreter, such as `3.15.0`, if known.
    pub version: Option<&'a str>,
    /// The name of the runtime or of the custom image.
    pub runtime: &'a str,
    /// All tools that the script can call, or `None` if they are unknown.
    pub tools: Option<&'a [Tool]>,
    /// The global variables of the session in which the script runs. Empty outside a session. `None` if the variables
    /// are unknown: the script can then use any name.
    pub variables: Option<&'a [SessionVariable]>,
    /// The tenant's name. A checker that keeps state, such as a running process, must not share this state between
    /// owners.
    pub owner: &'a str,
}

/// The reason why a script was not run after a type check.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TypeCheckError {
    /// The service has no checker.
    #[error(
        "this server does not check types; start it with `--types`, as in `glovebox serve --types` and `glovebox mcp --types`, or remove `check_types`"
    )]
    NotEnabled,
    /// The script is not Python.
    #[error("`check_types` supports only Python, and the script is {}; remove `check_types`", .0.name())]
    Language(Language),
    /// The script is too long for a type check.
    #[error(
        "the script is {bytes} bytes long; the maximum for a type check is {MAX_CHECKED_BYTES}; send a shorter script, or remove `check_types`"
    )]
    TooLong {
        /// The length of the script in bytes.
        bytes: usize,
    },
    /// The script has type errors.
    #[error("the script was not run, because it has type errors; correct them, or remove `check_types`")]
    Found(Vec<Diagnostic>),
    /// The check failed or exceeded its limits. The reason can contain details about the host.
    #[error(
        "the script was not run: its type check failed or exceeded the limits; send a simpler script, or remove `check_types`"
    )]
    Failed(#[source] Box<dyn Error + Send + Sync>),
}

impl TypeCheckError {
    pub(crate) fn kind(&self) -> Code {
        match self {
            Self::NotEnabled => UNSUPPORTED,
            Self::Language(_) => INVALID,
            Self::TooLong { .. } => TOO_LARGE,
            Self::Found(_) => TYPE_ERRORS,
            Self::Failed(_) => UNAVAILABLE,
        }
    }
}
