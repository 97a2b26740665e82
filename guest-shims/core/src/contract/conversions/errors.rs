//! Errors.

/// The part of [`contract_conversions!`](crate::contract_conversions) for errors.
#[doc(hidden)]
#[macro_export]
macro_rules! contract_errors {
    () => {
        impl types::SandboxError {
            /// The error of a file operation that failed, on this path or pattern.
            pub(crate) fn from_file(kind: types::FileError, path: &str, message: String) -> Self {
                Self::File(types::FileFailure { kind, path: contract::quoted(path).to_owned(), message })
            }
        }

        impl From<contract::InvalidArgument> for types::SandboxError {
            fn from(contract::InvalidArgument(text): contract::InvalidArgument) -> Self {
                Self::InvalidArgument(text)
            }
        }

        impl From<contract::PolicyRefusal> for types::SandboxError {
            fn from(refusal: contract::PolicyRefusal) -> Self {
                match refusal {
                    contract::PolicyRefusal::Invalid(text) => Self::InvalidPolicy(text),
                    contract::PolicyRefusal::Unsupported(text) => Self::Unsupported(text),
                }
            }
        }

        impl From<$crate::PolicyError> for types::SandboxError {
            fn from(error: $crate::PolicyError) -> Self {
                Self::InvalidPolicy(contract::invalid_policy(&error))
            }
        }

        impl From<$crate::RequestError> for types::SandboxError {
            fn from(error: $crate::RequestError) -> Self {
                match error {
                    $crate::RequestError::SourceTooLarge { bytes, most } => {
                        Self::SourceTooLarge(types::TooLarge { bytes, limit: most })
                    }
                    $crate::RequestError::StdinTooLarge { bytes, most } => {
                        Self::StdinTooLarge(types::TooLarge { bytes, limit: most })
                    }
                    $crate::RequestError::Name(_) => Self::InvalidArgument(error.to_string()),
                }
            }
        }

        impl From<$crate::session::TooMany> for types::SandboxError {
            fn from(error: $crate::session::TooMany) -> Self {
                let $crate::session::TooMany { key, used, most } = error;
                Self::TooManySessions(contract::too_many_sessions(key, used, most))
            }
        }
    };
}
