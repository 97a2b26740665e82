//! Conversions between this crate's types and those that a backend generates from `wit/`.
//!
//! Each file defines a macro for a part of the conversions, which
//! [`contract_conversions!`](crate::contract_conversions) expands.

mod cases;
mod errors;
mod policy;
mod request;
mod results;

/// Implements the conversions between core's types and the generated module `types` at a path, such as
/// `contract_conversions!(crate::bindings::types)`.
///
/// Every backend generates its own types, with the same fields and cases. The implementations are expanded in the
/// backend's crate, where these types are local.
#[macro_export]
macro_rules! contract_conversions {
    ($($types:tt)::+) => {
        const _: () = {
            use $crate::{contract, limits_from_wit, limits_into_wit};
            use $($types)::+ as types;

            $crate::contract_cases!();
            $crate::contract_policy!();
            $crate::contract_request!();
            $crate::contract_results!();
            $crate::contract_errors!();
        };
    };
}
