//! Enumerations without data.

/// Converts one enumeration into another with the same cases.
#[doc(hidden)]
#[macro_export]
macro_rules! same_cases {
    ($from:ty => $to:ty { $($case:ident),* $(,)? }) => {
        impl From<$from> for $to {
            fn from(value: $from) -> Self {
                match value {
                    $(<$from>::$case => Self::$case),*
                }
            }
        }
    };
}

/// The part of [`contract_conversions!`](crate::contract_conversions) for enumerations.
#[doc(hidden)]
#[macro_export]
macro_rules! contract_cases {
    () => {
        impl From<$crate::Language> for types::Language {
            fn from(value: $crate::Language) -> Self {
                match value {
                    $crate::Language::Python => Self::Python,
                    $crate::Language::JavaScript => Self::Javascript,
                }
            }
        }

        $crate::same_cases!(types::SourceKind => contract::SourceKind { Detect, Script, Module });
        $crate::same_cases!($crate::Resource => types::ResourceKind { Fuel, Time, Memory });
        $crate::same_cases!($crate::TrapKind => types::TrapKind {
            StackOverflow, Unreachable, OutOfBounds, BadCall, Arithmetic, BadReport, Other,
        });
        $crate::same_cases!($crate::tools::ToolErrorKind => types::ToolError {
            Failed, Limit, Timeout, Unknown, InvalidArguments,
        });
        $crate::same_cases!(types::ToolError => $crate::tools::ToolErrorKind {
            Failed, Limit, Timeout, Unknown, InvalidArguments,
        });
        $crate::same_cases!(contract::FileKind => types::FileKind { File, Directory, Symlink });
        $crate::same_cases!($crate::files::FileErrorKind => types::FileError {
            InvalidPath, NotFound, Exists, WrongKind, NoSpace, Refused,
        });
        $crate::same_cases!(types::IfExists => $crate::files::IfExists { Fail, Replace });
        $crate::same_cases!($crate::session::OnUnwind => types::OnUnwind { RollBack, End });
        $crate::same_cases!(types::OnUnwind => $crate::session::OnUnwind { RollBack, End });
        $crate::same_cases!($crate::guidance::FuelStatus => types::FuelStatus {
            Efficient, Moderate, Warning, Critical, Exhausted,
        });
        $crate::same_cases!($crate::guidance::AdviceKind => types::AdviceKind {
            Fuel, Time, Memory, CallDepth, Output, Module, Syntax, TypescriptSyntax, Path, Network, Subprocess, Threads, Input,
            Environment,
        });
    };
}
