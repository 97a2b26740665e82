//! Interrupts a running CPython, like Ctrl-C but without a signal.
//!
//! A signal's C handler (`trip_signal` in Modules/signalmodule.c, `_PyEval_SignalReceived` in Python/ceval_gil.c) only
//! stores a few words. CPython 3.12 stores 1 in four words: `Handlers[SIGINT].tripped`, `is_tripped`,
//! `ceval.signals_pending` and `interp->ceval.eval_breaker`. CPython 3.15 stores 1 in the first two words, and sets
//! the bit `_PY_SIGNALS_PENDING_BIT` in `tstate->eval_breaker`, whose other bits have other meanings. At each function
//! entry, call and backward jump, the evaluation loop checks the last of these words. If the word is set, the loop
//! clears all words and calls the Python function in `Handlers[SIGINT].func`: `interrupted` in `boot/interrupt.py`.
//! Regular expressions, arithmetic with huge integers, and system calls that fail with `EINTR` check `is_tripped`
//! themselves. Other long-running C code (`sum(range(10**12))`, `list.sort`, a large `join`) does not check any word
//! until it returns.
//!
//! The addresses are located at boot: CPython itself stores the words once, and the memory before and after is
//! compared.

use std::ops::Range;

use super::object::Interpreter;
use crate::{Anchors, DriverError, Interrupt, InterruptWrite};

/// The anchors of the words that are set to 1, in the order in which CPython sets them. CPython 3.15 uses two of these
/// words and the breaker.
const WORDS: [&str; 4] = ["interrupt_0", "interrupt_1", "interrupt_2", "interrupt_3"];
/// The anchor of the word in which a single bit is set, after all other words.
const BREAKER: &str = "interrupt_breaker";
/// `_PY_SIGNALS_PENDING_BIT` (Include/internal/pycore_ceval.h).
const SIGNALS_PENDING: u32 = 1 << 1;
/// The anchor of `Handlers[SIGINT].func`, which follows `tripped`.
const FUNCTION: &str = "interrupt_function";
/// The distance from `tripped` to `func`, in bytes.
const TRIPPED: u32 = 4;
/// The anchor of the bytes in which `interrupted` finds the reason.
const REASON: &str = "interrupt_reason";

/// Returns the words to write for an interrupt.
pub(super) fn interrupt_writes(anchors: &Anchors, interrupt: Interrupt) -> Result<Vec<InterruptWrite>, DriverError> {
    let reason = match interrupt {
        Interrupt::Fuel => 1,
        Interrupt::Time => 2,
        Interrupt::Cancelled => 3,
    };
    let mut writes = vec![InterruptWrite::word(anchors.get(REASON)?, reason)];
    writes.extend(flags(anchors)?);
    Ok(writes)
}

/// Returns the words that a signal sets, in CPython's order.
fn flags(anchors: &Anchors) -> Result<impl Iterator<Item = InterruptWrite>, DriverError> {
    anchors.get(WORDS[0])?;
    let breaker = anchors.get(BREAKER).ok().map(|at| InterruptWrite::bits(at, SIGNALS_PENDING));
    Ok(WORDS.iter().map_while(|word| anchors.get(word).ok()).map(InterruptWrite::flag).chain(breaker))
}

impl Interpreter<'_> {
    /// Clears an interrupt that the interpreter had not handled when its script ended.
    pub(super) fn drop_interrupt(&mut self, anchors: &Anchors) -> Result<(), DriverError> {
        for write in flags(anchors)? {
            let set = self.word(write.at, 0)?;
            self.write_word(write.at, 0, set & !write.mask)?;
        }
        Ok(())
    }

    /// Ensures that neither a late interrupt nor a handler that the script installed affects later code. If there is
    /// neither, no guest code runs and no fuel is charged.
    pub(super) fn settle_interrupts(&mut self) -> Result<(), DriverError> {
        let (function, ours) = (self.anchor(FUNCTION)?, self.anchor("interrupted")?);
        let late = self.word(function.wrapping_sub(TRIPPED), 0)? != 0;
        let replaced = self.word(function, 0)? != ours;
        if late && replaced {
            // Restore the driver's handler, because CPython would call the script's handler in the driver's frames. The
            // reference to the script's handler leaks.
            self.write_word(function, 0, ours)?;
        }
        if late || replaced {
            // CPython checks the words on entry to `rearm`, where the driver's handler ignores the interrupt.
            self.call("rearm")?;
        }
        Ok(())
    }

    /// Locates the words that an interrupt sets, as anchors. Exactly `count` words outside `stack` must change.
    pub(super) fn find_interrupt(
        &mut self,
        stack: &Range<u32>,
        count: usize,
    ) -> Result<Vec<(String, u32)>, DriverError> {
        let before = self.memory()?;
        self.call_object("interrupt_main", "no_arguments")?;
        let after = self.memory()?;
        let (mut words, mut breaker) = (Vec::new(), None);
        for (at, (old, new)) in (0_u32..).step_by(4).zip(before.chunks_exact(4).zip(after.chunks_exact(4))) {
            if old == new || stack.contains(&at) {
                continue;
            }
            match [old, new].map(|word| word.first_chunk().map_or(0, |word| u32::from_le_bytes(*word))) {
                [0, 1] => words.push(at),
                [old, new] if breaker.is_none() && old & SIGNALS_PENDING == 0 && new == old | SIGNALS_PENDING => {
                    breaker = Some(at);
                }
                [old, new] => {
                    return Err(DriverError::Boot(format!(
                        "an interrupt changes an unexpected word at {at:#x} from {old:#x} to {new:#x}"
                    )));
                }
            }
        }
        let function = words.first().copied().unwrap_or_default().wrapping_add(TRIPPED);
        if words.len() + usize::from(breaker.is_some()) != count
            || self.word(function, 0)? != self.anchor("interrupted")?
        {
            return Err(DriverError::Boot(format!(
                "an interrupt changes unexpected words, at {words:x?} and {breaker:x?}"
            )));
        }
        let mut anchors: Vec<_> = WORDS.into_iter().map(str::to_owned).zip(words).collect();
        anchors.extend(breaker.map(|at| (BREAKER.to_owned(), at)));
        anchors.push((FUNCTION.to_owned(), function));
        Ok(anchors)
    }

    /// Verifies the words: on entry to the next function, CPython must clear them and call `interrupted`.
    pub(super) fn check_interrupt(&mut self, writes: &[InterruptWrite]) -> Result<(), DriverError> {
        self.settle_interrupts()?; // clears the interrupt that `find_interrupt` caused
        for write in writes {
            let old = self.word(write.at, 0)?;
            self.write_word(write.at, 0, write.apply(old))?;
        }
        self.call("flush")?;
        for write in writes {
            if self.word(write.at, 0)? & write.mask != 0 {
                return Err(DriverError::Boot(format!("it ignores an interrupt at {:#x}", write.at)));
            }
        }
        Ok(())
    }
}
