//! Errors of the host and of its caller, as opposed to outcomes of applications.

use glovebox::{escaped, escaped_text};
use std::{io, path::PathBuf};

use glovebox::CompileError;

use crate::Export;

/// Why a component cannot be loaded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// Wasmtime does not support the settings on this machine.
    #[error("applications cannot run on this machine: {0}")]
    Settings(String),
    /// The file cannot be read.
    #[error("cannot read `{}`", escaped(path))]
    Read {
        /// Path of the file.
        path: PathBuf,
        /// The operating system's error.
        source: io::Error,
    },
    /// The component is larger than 512 MiB.
    #[error("`{name}` is larger than {most} bytes", name = escaped(.name))]
    TooLarge {
        /// Name of the component.
        name: String,
        /// Maximum size in bytes.
        most: u64,
    },
    /// The bytes are not WebAssembly.
    #[error("`{name}` is not a WebAssembly binary (bad magic number)", name = escaped(.name))]
    NotWasm {
        /// Name of the component.
        name: String,
    },
    /// The bytes are a core module.
    #[error("`{name}` is a core module, not a component", name = escaped(.name))]
    CoreModule {
        /// Name of the module.
        name: String,
    },
    /// Compiling the component would cost far more than its size suggests.
    ///
    /// Limits: 1,000 modules and components, about as many nested component types, 10,000 instances, 20,000 functions
    /// of the canonical ABI in them, and 250,000 items that they consist of.
    #[error("`{name}` is rejected before compilation: {reason}", name = escaped(.name), reason = escaped_text(.reason))]
    Excess {
        /// Name of the component.
        name: String,
        /// The exceeded limit.
        reason: String,
    },
    /// The component does not compile, exceeds the limits of the [`Compiler`](crate::Compiler), or the cache is
    /// unusable.
    #[error("`{name}` cannot be loaded", name = escaped(.name))]
    Compile {
        /// Name of the component.
        name: String,
        /// Cause of the failure.
        source: CompileError,
    },
    /// The component imports something that the host does not provide.
    #[error("cannot provide the import `{import}` of `{name}`", name = escaped(.name), import = escaped(.import))]
    MissingImport {
        /// Name of the component.
        name: String,
        /// Name of the import.
        import: String,
    },
    /// An import has another type than the host provides.
    #[error("`{name}` cannot be linked: {reason}", name = escaped(.name), reason = escaped_text(.reason))]
    Link {
        /// Name of the component.
        name: String,
        /// Wasmtime's message.
        reason: String,
    },
    /// A component that should provide tools exports none.
    #[error("`{name}` does not export `glovebox:sandbox/tools@0.2.0`, so it has no tools", name = escaped(.name))]
    NoTools {
        /// Name of the component.
        name: String,
    },
    /// The component's list of tools is unusable.
    #[error("cannot list the tools of `{name}`: {reason}", name = escaped(.name), reason = escaped_text(.reason))]
    ToolList {
        /// Name of the component.
        name: String,
        /// Outcome of the call, or the error in the list.
        reason: String,
    },
}

/// Why an application cannot be run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// The component is not a command.
    #[error("`{name}` does not export `wasi:cli/run`, so it cannot be run as a command", name = escaped(.name))]
    NotACommand {
        /// Name of the component.
        name: String,
        /// Exported functions of the component.
        exports: Vec<Export>,
    },
    /// A granted directory cannot be opened.
    #[error("cannot open the directory `{}`: {reason}", escaped(host))]
    Directory {
        /// Path of the directory.
        host: PathBuf,
        /// Cause of the failure.
        reason: String,
    },
    /// A granted directory is missing, or overlaps with one of Glovebox's own directories, such as the cache.
    #[error(transparent)]
    Mount(#[from] glovebox::mount::MountError),
    /// The operating system could not create a thread, or the resources to wait in it.
    #[error("cannot create a thread for the application")]
    Thread(#[source] io::Error),
}

/// Why an export cannot be invoked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InvokeError {
    /// The text is not a function call.
    #[error("`{call}` is not a call; write it as `name(argument, …)`", call = escaped(.call))]
    NoCall {
        /// Text of the call.
        call: String,
    },
    /// No function has this name.
    #[error("`{name}` exports no function `{function}`", name = escaped(.name), function = escaped(.function))]
    NoSuchFunction {
        /// Name of the component.
        name: String,
        /// Requested function.
        function: String,
        /// Exported functions of the component.
        exports: Vec<Export>,
    },
    /// Several functions have this name.
    #[error("`{function}` could be any of {}", list(candidates), function = escaped(.function))]
    Ambiguous {
        /// Requested function.
        function: String,
        /// Full names of the matching functions.
        candidates: Vec<String>,
    },
    /// The function uses resources, which have no textual form.
    #[error("cannot invoke `{function}`: its parameters or result contain a resource", function = escaped(.function))]
    Resource {
        /// Name of the function.
        function: String,
    },
    /// The arguments do not match the function's parameters.
    #[error("`{signature}` does not accept `{arguments}`: {reason}", signature = escaped(.signature), arguments = escaped(.arguments), reason = escaped_text(.reason))]
    Arguments {
        /// The function with its types.
        signature: String,
        /// Arguments of the call.
        arguments: String,
        /// Difference between the arguments and the parameters.
        reason: String,
    },
    /// The run could not begin.
    #[error(transparent)]
    Run(#[from] RunError),
}

fn list(names: &[String]) -> String {
    names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}
