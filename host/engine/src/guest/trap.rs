//! Classifies early ends of calls into guests, by the type of the error and never by its text.

use glovebox_wasi::Stop;
use wasmtime::Trap;

use crate::TrapKind;

/// A [`Stop`] wrapped in an error of Wasmtime.
#[derive(Debug, thiserror::Error)]
#[error("the guest was unwound")]
pub(crate) struct Unwound(pub(crate) Stop);

/// Cause of a call's early end.
#[derive(Debug)]
pub(crate) enum Ended {
    /// The host unwound the guest, or its fuel ran out.
    Stopped(Stop),
    /// A WebAssembly trap.
    Trapped(TrapKind),
}

/// Extracts the cause from Wasmtime's error.
pub(crate) fn classify(error: wasmtime::Error) -> Ended {
    if error.is::<Unwound>() {
        return match error.downcast::<Unwound>() {
            Ok(Unwound(stop)) => Ended::Stopped(stop),
            Err(_) => Ended::Trapped(TrapKind::Other),
        };
    }
    Ended::Trapped(match error.downcast_ref::<Trap>() {
        Some(Trap::OutOfFuel) => return Ended::Stopped(Stop::OutOfFuel),
        Some(Trap::Interrupt) => return Ended::Stopped(Stop::Deadline),
        Some(Trap::StackOverflow) => TrapKind::StackOverflow,
        Some(Trap::UnreachableCodeReached) => TrapKind::Unreachable,
        Some(Trap::MemoryOutOfBounds | Trap::HeapMisaligned | Trap::TableOutOfBounds | Trap::ArrayOutOfBounds) => {
            TrapKind::OutOfBounds
        }
        Some(Trap::IndirectCallToNull | Trap::BadSignature | Trap::NullReference | Trap::CastFailure) => {
            TrapKind::BadCall
        }
        Some(Trap::IntegerOverflow | Trap::IntegerDivisionByZero | Trap::BadConversionToInteger) => {
            TrapKind::Arithmetic
        }
        _ => TrapKind::Other,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_way_a_guest_ends_has_its_own_reading() {
        let table = [
            (Trap::StackOverflow, TrapKind::StackOverflow),
            (Trap::UnreachableCodeReached, TrapKind::Unreachable),
            (Trap::MemoryOutOfBounds, TrapKind::OutOfBounds),
            (Trap::TableOutOfBounds, TrapKind::OutOfBounds),
            (Trap::IndirectCallToNull, TrapKind::BadCall),
            (Trap::BadSignature, TrapKind::BadCall),
            (Trap::IntegerDivisionByZero, TrapKind::Arithmetic),
        ];
        for (trap, kind) in table {
            assert!(matches!(classify(trap.into()), Ended::Trapped(got) if got == kind), "{trap:?}");
        }
        assert!(matches!(classify(Trap::OutOfFuel.into()), Ended::Stopped(Stop::OutOfFuel)));
        assert!(matches!(classify(Trap::Interrupt.into()), Ended::Stopped(Stop::Deadline)));
        let exit = wasmtime::Error::new(Unwound(Stop::Exit(3)));
        assert!(matches!(classify(exit), Ended::Stopped(Stop::Exit(3))));
        let host = wasmtime::Error::msg("all fuel consumed by WebAssembly");
        assert!(matches!(classify(host), Ended::Trapped(TrapKind::Other)), "text is never looked at");
    }
}
