//! Tools that are host programs.

use std::{fmt, str::FromStr};

use clap::Args;
use glovebox::{Policy, Tool};

use crate::{program::Program, terminal::Hinted};

/// Host programs that scripts may call.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Tools")]
pub(crate) struct ProgramArgs {
    /// Host program that scripts call as `tools.NAME(…)`; repeatable
    ///
    /// The program gets the arguments as a JSON object on standard input, and prints the result as JSON.
    #[arg(long = "tool", value_name = "NAME=COMMAND")]
    tools: Vec<NamedProgram>,
}

/// A host program with the name of its tool.
#[derive(Clone, Debug)]
struct NamedProgram {
    name: String,
    program: Program,
}

impl FromStr for NamedProgram {
    type Err = WrongTool;

    fn from_str(text: &str) -> Result<Self, WrongTool> {
        let (name, command) = text.split_once('=').ok_or(WrongTool::NoCommand)?;
        let program = Program::parse(command).ok_or(WrongTool::Words)?;
        Ok(Self { name: name.to_owned(), program })
    }
}

/// Why a tool is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WrongTool {
    NoCommand,
    Words,
}

impl fmt::Display for WrongTool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoCommand => "write it as `NAME=COMMAND`, such as `add=python3 add.py`",
            Self::Words => "the command is empty, or has an unterminated quotation",
        })
    }
}

impl std::error::Error for WrongTool {}

impl ProgramArgs {
    /// Returns the names of the tools.
    #[cfg(feature = "full")]
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.tools.iter().map(|tool| tool.name.as_str())
    }

    /// Returns the tools, for sandboxes with this policy.
    pub(crate) fn tools(&self, policy: &Policy) -> Result<Vec<Tool>, Hinted> {
        self.tools.iter().map(|NamedProgram { name, program }| program.tool(name, policy.limits.tool_bytes)).collect()
    }
}
