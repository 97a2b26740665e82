//! Which code, in which interpreter.

use std::path::PathBuf;

use clap::Args;
use glovebox::Language;

/// The code: files, standard input, or text given here.
#[derive(Args, Debug)]
#[group(required = true, multiple = false)]
pub(crate) struct CodeArgs {
    /// Scripts, one after another, each by itself; `-` reads one from standard input
    #[arg(value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,

    /// Code given here; Python unless --language says otherwise
    #[arg(short = 'e', long = "eval", value_name = "CODE", allow_hyphen_values = true)]
    pub(crate) eval: Option<String>,
}

/// The code and its language.
#[derive(Args, Debug)]
pub(crate) struct SourceArgs {
    #[command(flatten)]
    pub(crate) code: CodeArgs,

    /// python or javascript [default: by the file's extension: .py .pyw, .js .mjs .cjs]
    #[arg(short, long, value_name = "LANGUAGE", value_parser = str::parse::<Language>)]
    pub(crate) language: Option<Language>,
}

/// The interpreter.
#[derive(Args, Clone, Debug)]
pub(crate) struct RuntimeArgs {
    /// An interpreter by name (see `glovebox runtimes list`) [default: the language's]
    #[arg(long, value_name = "NAME")]
    pub(crate) runtime: Option<String>,

    /// Any other WebAssembly binary of an interpreter
    #[arg(long, value_name = "FILE", conflicts_with = "runtime")]
    pub(crate) runtime_path: Option<PathBuf>,

    /// Boot the interpreter as a plain command each time instead of using its prepared image
    #[arg(long)]
    pub(crate) no_prepare: bool,
}
