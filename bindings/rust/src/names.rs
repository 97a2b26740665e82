//! The contract's names of enum cases.

use std::fmt;

use crate::{AdviceKind, FileError, FileKind, FuelStatus, Language, ResourceKind, ToolError, TrapKind};

macro_rules! names {
    ($($type:ident { $($case:ident = $name:literal),* $(,)? })*) => {$(
        /// Formats the case by its name in the contract.
        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(match self { $(Self::$case => $name),* })
            }
        }
    )*

        /// The type, case and name of every case.
        #[cfg(test)]
        const ALL: &[(&str, &str, &str)] = &[$($((stringify!($type), stringify!($case), $name)),*),*];
    };
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
    FuelStatus {
        Efficient = "efficient", Moderate = "moderate", Warning = "warning", Critical = "critical", Exhausted = "exhausted",
    }
    AdviceKind {
        Fuel = "fuel", Time = "time", Memory = "memory", CallDepth = "call-depth", Output = "output", Module = "module",
        Syntax = "syntax", TypescriptSyntax = "typescript-syntax", Path = "path", Network = "network",
        Subprocess = "subprocess", Threads = "threads", Input = "input", Environment = "environment",
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

    fn kebab(name: &str) -> String {
        let dashed = |c: char| if c.is_uppercase() { format!("-{}", c.to_lowercase()) } else { c.to_string() };
        name.chars().map(dashed).collect::<String>().trim_start_matches('-').to_owned()
    }

    #[test]
    fn names_are_those_of_the_contract() {
        let contract = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../wit/types.wit")).unwrap();
        for (of, case, name) in ALL {
            assert_eq!(*name, kebab(case), "{of}");
            let (_, cases) = contract.split_once(&format!("enum {} {{", kebab(of))).unwrap();
            let (cases, _) = cases.split_once('}').unwrap();
            assert!(cases.contains(&format!("        {name},\n")), "{of}: {name}");
        }
    }

    #[test]
    fn a_name_is_what_is_shown() {
        assert_eq!(
            format!("{} {:>6} {}", TrapKind::BadCall, FileKind::File, ToolError::Failed),
            "bad-call   file failed"
        );
    }
}
