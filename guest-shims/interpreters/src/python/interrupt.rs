//! Asking a running CPython to stop: like Ctrl-C, without a signal.
//!
//! What a signal's C handler does (`trip_signal` in Modules/signalmodule.c, `_PyEval_SignalReceived` in Python/ceval_gil.c)
//! is in this build exactly four stores of 1: to `Handlers[SIGINT].tripped`, `is_tripped`, `ceval.signals_pending` and
//! `interp->ceval.eval_breaker`. The evaluation loop checks the last one at each function entry, call and backward
//! jump, clears them all, and calls the Python function in `Handlers[SIGINT].func`: `interrupted` in boot/interrupt.py.
//! Regular expressions, the arithmetic of huge integers, and a system call that ends with `EINTR` check `is_tripped`
//! themselves. Other long-running C code (`sum(range(10**12))`, `list.sort`, a large `join`) checks nothing until it
//! returns.
//!
//! The four addresses are located at boot: CPython itself stores the words, once, and memory before and after is
//! compared.

use super::boot::C_STACK_BYTES;
use super::object::{Interpreter, SCRATCH_BYTES};
use crate::{Anchors, DriverError, Interrupt, Poke};

/// The anchors of the words, in the order in which CPython sets them.
const WORDS: [&str; 4] = ["interrupt_0", "interrupt_1", "interrupt_2", "interrupt_3"];
/// The anchor of `Handlers[SIGINT].func`, which follows `tripped`.
const FUNCTION: &str = "interrupt_function";
/// The offset by which `tripped` precedes it.
const TRIPPED: u32 = 4;
/// The anchor of the bytes from which `interrupted` reads the reason.
const REASON: &str = "interrupt_reason";

/// The words to write to raise `interrupt`.
pub(super) fn pokes(anchors: &Anchors, interrupt: Interrupt) -> Result<Vec<Poke>, DriverError> {
    let reason = match interrupt {
        Interrupt::Fuel => 1,
        Interrupt::Time => 2,
        Interrupt::Cancelled => 3,
    };
    let mut pokes = vec![Poke { at: anchors.get(REASON)?, word: reason }];
    for word in WORDS {
        pokes.push(Poke { at: anchors.get(word)?, word: 1 });
    }
    Ok(pokes)
}

/// The words to write to make the evaluation loop check for signals and find none: `while True: pass` leaves it for
/// nothing else.
pub(super) fn nudge(anchors: &Anchors) -> Result<Vec<Poke>, DriverError> {
    WORDS.iter().skip(1).map(|word| Ok(Poke { at: anchors.get(word)?, word: 1 })).collect()
}

impl Interpreter<'_> {
    /// Ensures that an interrupt that came too late for a script, or a handler that it installed, does not affect
    /// anything that runs afterwards. Costs the guest nothing if there is neither.
    pub(super) fn settle_interrupts(&mut self) -> Result<(), DriverError> {
        let (function, ours) = (self.anchor(FUNCTION)?, self.anchor("interrupted")?);
        let late = self.word(function.wrapping_sub(TRIPPED), 0)? != 0;
        let replaced = self.word(function, 0)? != ours;
        if late && replaced {
            // Otherwise the script's handler would be called within the driver's own frames. Its reference is lost.
            self.write_word(function, 0, ours)?;
        }
        if late || replaced {
            // CPython checks the words on entering the function, and the handler ignores them there.
            self.call("rearm")?;
        }
        Ok(())
    }

    /// Locates the words, as anchors.
    pub(super) fn find_interrupt(&mut self) -> Result<Vec<(String, u32)>, DriverError> {
        let stack_top = self.anchor("scratch")?;
        let stack = stack_top.saturating_sub(C_STACK_BYTES - SCRATCH_BYTES)..stack_top;
        let before = self.memory()?;
        self.call_object("interrupt_main", "no_arguments")?;
        let after = self.memory()?;
        let mut words = Vec::new();
        for (at, (old, new)) in (0_u32..).step_by(4).zip(before.chunks_exact(4).zip(after.chunks_exact(4))) {
            if old != new && !stack.contains(&at) {
                if (old, new) != (&[0; 4], &1_u32.to_le_bytes()) {
                    return Err(DriverError::Boot(format!(
                        "an interrupt changes its memory at {at:#x} by more than 1"
                    )));
                }
                words.push(at);
            }
        }
        let function = words.first().copied().unwrap_or_default().wrapping_add(TRIPPED);
        if words.len() != WORDS.len() || self.word(function, 0)? != self.anchor("interrupted")? {
            return Err(DriverError::Boot(format!("an interrupt changes its memory at {words:x?}")));
        }
        let mut anchors: Vec<_> = WORDS.into_iter().map(str::to_owned).zip(words).collect();
        anchors.push((FUNCTION.to_owned(), function));
        Ok(anchors)
    }

    /// Proves that they are the right ones: CPython clears them on entering the next function, and calls `interrupted`,
    /// which clears the reason.
    pub(super) fn check_interrupt(&mut self, pokes: &[Poke]) -> Result<(), DriverError> {
        self.settle_interrupts()?; // what finding them left behind
        for poke in pokes {
            self.write_word(poke.at, 0, poke.word)?;
        }
        self.call("flush")?;
        for poke in pokes {
            if self.word(poke.at, 0)? != 0 {
                return Err(DriverError::Boot(format!("it ignores an interrupt at {:#x}", poke.at)));
            }
        }
        Ok(())
    }
}
