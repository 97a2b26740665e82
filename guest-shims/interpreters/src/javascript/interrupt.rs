//! Interrupting a script while its interpreter stays usable.
//!
//! QuickJS regularly calls an interrupt handler. The handler installed here reads a word that the host writes while the
//! guest runs. If the word is set, the interpreter throws an `InternalError` that bypasses every `catch` and `finally`.
//! The handler is called again later, in case native code swallowed the error. No code of the script runs during
//! unwinding: iterators are not closed, running generators are finished, and promises of running async functions stay
//! pending.

use super::{guest::JsValue, state::Booted};
use crate::{Anchors, DriverError, Interrupt, Poke, Raised};

/// The class and message of the error that the interpreter throws for an interrupt.
const THROWN: (&str, &str) = ("InternalError", "interrupted");

const KINDS: [(Interrupt, u32, &str); 3] = [
    (Interrupt::Fuel, 1, "the fuel limit is nearly reached"),
    (Interrupt::Time, 2, "the time limit is nearly reached"),
    (Interrupt::Cancelled, 3, "the execution was cancelled"),
];

/// The counter value that makes the interpreter call the handler at the next call or loop iteration.
const ASK_NOW: u32 = 1;

/// Returns the word with the reason, followed by the counter that makes the interpreter check immediately.
pub(super) fn pokes(anchors: &Anchors, interrupt: Interrupt) -> Result<Vec<Poke>, DriverError> {
    let word = KINDS.iter().find(|(kind, ..)| *kind == interrupt).map_or(0, |(_, word, _)| *word);
    let counter = anchors.get("interrupt_counter")?;
    Ok(vec![Poke::word(anchors.get("interrupt")?, word), Poke::word(counter, ASK_NOW)])
}

impl Booted<'_> {
    /// Clears the interrupt word. Returns the reason that the host wrote, or `None` if it wrote none. Must come before
    /// any other call into the guest, which would also be interrupted.
    pub(super) fn take_interrupt(&mut self) -> Result<Option<&'static str>, DriverError> {
        let word = self.guest.read_word(self.at.interrupt)?;
        if word == 0 {
            return Ok(None);
        }
        self.guest.write_word(self.at.interrupt, 0)?;
        Ok(KINDS.iter().find(|(_, kind, _)| *kind == word).map(|(.., why)| *why))
    }

    /// Returns whether the interpreter has yet to check the interrupt word since the host wrote it.
    pub(super) fn has_missed_interrupt(&mut self) -> Result<bool, DriverError> {
        Ok(self.guest.read_word(self.at.interrupt_counter)? == ASK_NOW)
    }

    /// Returns whether the host has written the interrupt word.
    pub(super) fn is_interrupted(&mut self) -> Result<bool, DriverError> {
        Ok(self.guest.read_word(self.at.interrupt)? != 0)
    }

    /// Prints, describes and consumes the error that an interrupt threw. Returns any other thrown value in `Err`.
    pub(super) fn interrupted(
        &mut self,
        thrown: JsValue,
        why: &str,
        name: &str,
    ) -> Result<Result<Raised, JsValue>, DriverError> {
        let facts = self.facts(thrown)?;
        if facts.kind() != THROWN {
            return Ok(Err(thrown));
        }
        self.guest.free(thrown)?;
        let raised = facts.into_stopped(why, name);
        self.print_error(&raised.traceback)?;
        Ok(Ok(raised))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_interrupt_kind_has_its_nonzero_word() {
        let anchors = Anchors([("interrupt".to_owned(), 8), ("interrupt_counter".to_owned(), 16)].into());
        let mut words: Vec<u32> = Vec::new();
        for kind in [Interrupt::Fuel, Interrupt::Time, Interrupt::Cancelled] {
            let pokes = pokes(&anchors, kind).unwrap();
            let [word, counter] = pokes.as_slice() else { panic!("{pokes:?}") };
            assert_eq!((word.at, *counter), (8, Poke::word(16, 1)));
            assert!(word.word != 0 && !words.contains(&word.word));
            words.push(word.word);
        }
    }
}
