//! Enums as the contract spells them.

use std::fmt;

use crate::{FileError, FileKind, Language, ResourceKind, ToolError, TrapKind};

macro_rules! names {
    ($($type:ident { $($case:ident = $name:literal),* $(,)? })*) => {$(
        /// As the contract spells it.
        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(match self { $(Self::$case => $name),* })
            }
        }
    )*};
}

names! {
    Language { Python = "python", Javascript = "javascript" }
    ResourceKind { Fuel = "fuel", Time = "time", Memory = "memory" }
    TrapKind {
        StackOverflow = "stack-overflow", Unreachable = "unreachable", OutOfBounds = "out-of-bounds", BadCall = "bad-call",
        Arithmetic = "arithmetic", BadReport = "bad-report", Other = "other",
    }
    ToolError {
        Failed = "failed", Limit = "limit", Timeout = "timeout", Unknown = "unknown", InvalidArguments = "invalid-arguments",
    }
    FileKind { File = "file", Directory = "directory", Symlink = "symlink" }
    FileError {
        InvalidPath = "invalid-path", NotFound = "not-found", Exists = "exists", WrongKind = "wrong-kind", NoSpace = "no-space",
        Refused = "refused",
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// The generator's debug form is the Rust name of the case: it and the contract's text hold the table above.
    #[test]
    fn names_are_those_of_the_contract() {
        let contract = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../wit/types.wit")).unwrap();
        let all: [(&str, String); 6] = [
            ("StackOverflow", TrapKind::StackOverflow.to_string()),
            ("BadReport", TrapKind::BadReport.to_string()),
            ("InvalidArguments", ToolError::InvalidArguments.to_string()),
            ("NoSpace", FileError::NoSpace.to_string()),
            ("Symlink", FileKind::Symlink.to_string()),
            ("Javascript", Language::Javascript.to_string()),
        ];
        for (case, name) in all {
            assert!(contract.contains(&format!("        {name},")), "{name}");
            assert_eq!(name.replace('-', ""), case.to_lowercase());
        }
    }
}
