//! What goes wrong on our side or the caller's.

use glovebox::{escaped, escaped_text};
use std::{io, path::PathBuf};

use glovebox::CompileError;

use crate::Export;

/// A component could not be loaded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// Wasmtime refuses the settings on this machine.
    #[error("applications cannot run on this machine: {0}")]
    Settings(String),
    /// The file cannot be read.
    #[error("cannot read `{}`", escaped(path))]
    Read {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// The file is too large to be compiled.
    #[error("`{name}` is larger than {most} bytes", name = escaped(.name))]
    TooLarge {
        /// The component.
        name: String,
        /// The most that it may be.
        most: u64,
    },
    /// The bytes are no WebAssembly.
    #[error("`{name}` is not a WebAssembly binary (bad magic number)", name = escaped(.name))]
    NotWasm {
        /// The file.
        name: String,
    },
    /// The bytes are a core module.
    #[error("`{name}` is a core module, not a component", name = escaped(.name))]
    CoreModule {
        /// The file.
        name: String,
    },
    /// Compiling it would take out of all proportion to its size. The most are 1,000 modules and components, about as many types of components
    /// within one another, 10,000 instances, 20,000 functions of the canonical ABI in them, and 250,000 items that they are made of.
    #[error("`{name}` is refused before it is compiled: {reason}", name = escaped(.name), reason = escaped_text(.reason))]
    Excess {
        /// The component.
        name: String,
        /// What there is too much of.
        reason: String,
    },
    /// It does not compile, takes more than a [`Compiler`](crate::Compiler) may, or the cache cannot be used.
    #[error("`{name}` cannot be loaded", name = escaped(.name))]
    Compile {
        /// The component.
        name: String,
        /// Why.
        source: CompileError,
    },
    /// It imports what nothing here provides.
    #[error("`{name}` imports `{import}`, and nothing here provides it", name = escaped(.name), import = escaped(.import))]
    MissingImport {
        /// The component.
        name: String,
        /// The import.
        import: String,
    },
    /// What it imports is of another type than what is here.
    #[error("`{name}` cannot be linked: {reason}", name = escaped(.name), reason = escaped_text(.reason))]
    Link {
        /// The component.
        name: String,
        /// Wasmtime's words.
        reason: String,
    },
    /// It was to give tools, and exports none.
    #[error("`{name}` does not export `glovebox:sandbox/tools@0.2.0`, so it has no tools", name = escaped(.name))]
    NoTools {
        /// The component.
        name: String,
    },
    /// It did not say which tools it has.
    #[error("`{name}` does not tell its tools: {reason}", name = escaped(.name), reason = escaped_text(.reason))]
    ToolList {
        /// The component.
        name: String,
        /// How the call ended, or what is wrong with the list.
        reason: String,
    },
}

/// An application could not be run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// It is not a command.
    #[error("`{name}` does not export `wasi:cli/run`, so it cannot be run as a command", name = escaped(.name))]
    NotACommand {
        /// The component.
        name: String,
        /// What it exports.
        exports: Vec<Export>,
    },
    /// A directory that it is granted cannot be opened.
    #[error("cannot open the directory `{}`: {reason}", escaped(host))]
    Directory {
        /// The directory.
        host: PathBuf,
        /// Why not.
        reason: String,
    },
    /// A directory that it is granted is missing, or contains or lies in one of Glovebox's own, such as the cache.
    #[error(transparent)]
    Mount(#[from] glovebox::mount::MountError),
    /// The operating system gave no thread, or not what one needs to wait.
    #[error("the operating system gave no thread to run an application on")]
    Thread(#[source] io::Error),
}

/// An export could not be invoked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InvokeError {
    /// The text is no call.
    #[error("`{call}` is no call; write it as `name(argument, …)`", call = escaped(.call))]
    NoCall {
        /// The text.
        call: String,
    },
    /// No function has this name.
    #[error("`{name}` exports no function `{function}`", name = escaped(.name), function = escaped(.function))]
    NoSuchFunction {
        /// The component.
        name: String,
        /// What was asked for.
        function: String,
        /// What there is.
        exports: Vec<Export>,
    },
    /// Several functions have this name.
    #[error("`{function}` could be any of {}", list(candidates), function = escaped(.function))]
    Ambiguous {
        /// What was asked for.
        function: String,
        /// The full names of those that it could be.
        candidates: Vec<String>,
    },
    /// Resources cannot be written down.
    #[error("`{function}` takes or gives a resource, which has no text; it cannot be invoked from outside", function = escaped(.function))]
    Resource {
        /// The function.
        function: String,
    },
    /// The arguments are not what the function takes.
    #[error("the arguments of `{signature}` cannot be {arguments}: {reason}", signature = escaped(.signature), arguments = escaped_text(.arguments), reason = escaped_text(.reason))]
    Arguments {
        /// The function with its types.
        signature: String,
        /// What they were.
        arguments: String,
        /// What is wrong with them.
        reason: String,
    },
    /// It could not be run.
    #[error(transparent)]
    Run(#[from] RunError),
}

fn list(names: &[String]) -> String {
    names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}
