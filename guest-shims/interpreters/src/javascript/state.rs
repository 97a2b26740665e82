//! Addresses in a prepared image, words shared between the boot scripts and the host, and interrupts. The interpreter
//! stays usable after an interrupt.
//!
//! QuickJS regularly calls an interrupt handler. The handler installed at boot reads a word that the host writes while
//! the guest runs. If the word is set, the interpreter throws an `InternalError` that bypasses every `catch` and
//! `finally`. The handler is called again later, in case native code swallowed the error. No code of the script runs
//! during unwinding: iterators are not closed, running generators are finished, and promises of running async functions
//! stay pending.

use std::collections::BTreeMap;

use super::{
    Build,
    guest::{Guest, JsValue},
};
use crate::{Anchors, DriverError, Interrupt, InterruptWrite, Machine, RaisedOutcome};

/// Defines the image's addresses once: as fields, as anchor names, and with conversions between the two. Functions are
/// in braces, with their names in `$glovebox`.
macro_rules! addresses {
    ($($(#[$doc:meta])* $field:ident,)* { $($function:ident = $name:literal,)* }) => {
        /// Addresses in a prepared image.
        #[derive(Clone, Copy, Debug, Default)]
        pub(super) struct Addresses {
            $($(#[$doc])* pub(super) $field: u32,)*
            $(pub(super) $function: u32,)*
        }

        impl Addresses {
            pub(super) fn from_anchors(anchors: &Anchors) -> Result<Self, DriverError> {
                Ok(Self {
                    $($field: anchors.get(stringify!($field))?,)*
                    $($function: anchors.get(stringify!($function))?,)*
                })
            }

            pub(super) fn into_anchors(self) -> Anchors {
                Anchors(BTreeMap::from([
                    $((stringify!($field).to_owned(), self.$field),)*
                    $((stringify!($function).to_owned(), self.$function),)*
                ]))
            }

            /// Returns the addresses of the boot scripts' functions, with the functions' names in `$glovebox`.
            pub(super) fn functions(&mut self) -> impl Iterator<Item = (&'static str, &mut u32)> {
                [$(($name, &mut self.$function),)*].into_iter()
            }
        }
    };
}

addresses! {
    /// The `JSRuntime *`.
    runtime,
    /// The `JSContext *`.
    context,
    /// A buffer of `SCRATCH_BYTES` for arguments and results.
    scratch,
    /// A buffer of `SOURCE_BYTES` for source text. Memory for longer sources is allocated for each execution.
    source,
    /// A buffer of `NAME_BYTES` for the script's name.
    name,
    /// A buffer of `NAME_BYTES` for property names.
    key,
    /// The address of `JSRuntime.stack_limit`, the lowest address that the shadow stack may reach.
    stack_limit_at,
    /// The value of `JSRuntime.stack_limit`.
    stack_limit,
    /// The word that the interrupt handler reads: zero, or the reason to stop.
    interrupt,
    /// The address of `JSContext.interrupt_counter`: the calls and loop iterations until the handler runs again.
    interrupt_counter,
    /// The address at which the interpreter's list of unhandled rejections begins.
    rejections,
    /// The address of `JSContext.random_state`.
    random_state,
    /// The address of `JSContext.global_obj`. The next field is `global_var_obj`, the table of `let`, `const` and
    /// `class` bindings.
    global,
    /// The address at which the context's list of modules begins.
    modules,
    /// The offset of the list link in a module.
    module_link,
    /// The words that the boot scripts share with the host.
    words,
    /// The number of bindings that the image's setup code created.
    bindings,
    /// The address of the allocator's first chunk.
    first_chunk,
    /// The lowest address of the shadow stack.
    stack,
    /// The end of the shadow stack.
    stack_top,
    // Functions in `driver.js`, `globals.js`, `modules.js`, `persist.js`, `tools.js` and `values.js`.
    {
        tick = "tick",
        reset = "reset",
        prepare = "prepare",
        facts = "facts",
        report = "report",
        complain = "complain",
        forget = "forget",
        uncaught = "uncaught",
        show = "show",
        find = "find",
        assign = "assign",
        blank = "blank",
        count = "count",
        redeclare = "redeclare",
        restore_globals = "restoreGlobals",
        next_global = "nextGlobal",
        keep_global = "keepGlobal",
        keep_bindings = "keepBindings",
        facade = "facade",
        expect_imports = "expectImports",
        import_error = "importError",
        survey = "survey",
        next_package = "nextPackage",
    }
}

/// The offset of the word that is zero while the guest has the image's input. The boot scripts do not change this word.
const INPUT_OFFSET: u32 = 12;

// The offsets of the words after the two doubles that `globals.js` stores at boot.
const LITTER_OFFSET: u32 = 32;
const LEAVING_OFFSET: u32 = 36;
const LISTENING_OFFSET: u32 = 40;
const WANTED_OFFSET: u32 = 44;

/// The boot scripts' state between two calls.
#[derive(Clone, Copy, Debug)]
pub(super) struct BootScriptState {
    /// The number of timers and replies that the script is waiting for.
    pub(super) waiting: u32,
    /// The exit code, if the script called `std.exit`.
    pub(super) exit: Option<i32>,
    /// `true` if the guest has the input that was passed when the image was booted.
    pub(super) has_image_input: bool,
}

/// A booted guest: its C API, and the addresses in its image.
pub(super) struct BootedGuest<'a> {
    pub(super) guest: Guest<'a>,
    pub(super) at: Addresses,
}

impl<'a> BootedGuest<'a> {
    pub(super) fn new(
        machine: &'a mut dyn Machine,
        anchors: &Anchors,
        build: &'static Build,
    ) -> Result<Self, DriverError> {
        let at = Addresses::from_anchors(anchors)?;
        let guest = Guest { machine, build, runtime: at.runtime, context: at.context, scratch: at.scratch };
        Ok(Self { guest, at })
    }

    pub(super) fn state(&mut self) -> Result<BootScriptState, DriverError> {
        let mut bytes = [0; 16];
        self.guest.machine.read(self.at.words, &mut bytes)?;
        let [t0, t1, t2, t3, e0, e1, e2, e3, c0, c1, c2, c3, i0, i1, i2, i3] = bytes;
        let exited = u32::from_le_bytes([e0, e1, e2, e3]) != 0;
        Ok(BootScriptState {
            waiting: u32::from_le_bytes([t0, t1, t2, t3]),
            exit: exited.then_some(i32::from_le_bytes([c0, c1, c2, c3])),
            has_image_input: u32::from_le_bytes([i0, i1, i2, i3]) == 0,
        })
    }

    /// Returns `true` if the execution has left state that must be cleaned up.
    pub(super) fn has_litter(&mut self) -> Result<bool, DriverError> {
        Ok(self.guest.read_word(self.at.words + LITTER_OFFSET)? != 0)
    }

    /// Returns `true` if the script has listeners for uncaught errors.
    pub(super) fn is_listening(&mut self) -> Result<bool, DriverError> {
        Ok(self.guest.read_word(self.at.words + LISTENING_OFFSET)? != 0)
    }

    /// Returns `true` if the script is waiting for packages, and clears that flag.
    pub(super) fn take_wanted_packages(&mut self) -> Result<bool, DriverError> {
        let at = self.at.words + WANTED_OFFSET;
        let is_wanted = self.guest.read_word(at)? != 0;
        if is_wanted {
            self.guest.write_word(at, 0)?;
        }
        Ok(is_wanted)
    }

    /// Returns the exit code of a script that ends without calling an exit function; `None` for zero.
    pub(super) fn leaving(&mut self) -> Result<Option<i32>, DriverError> {
        let code = self.guest.read_word(self.at.words + LEAVING_OFFSET)?;
        Ok((code != 0).then_some(code.cast_signed()))
    }

    /// Stores whether the guest has the input that was passed when the image was booted.
    pub(super) fn set_image_input(&mut self, has_image_input: bool) -> Result<(), DriverError> {
        Ok(self.guest.write_word(self.at.words + INPUT_OFFSET, u32::from(!has_image_input))?)
    }

    /// Calls a function of the boot scripts. The caller keeps the references to the arguments. Returns `None` and
    /// discards the exception if the function threw.
    pub(super) fn ask(&mut self, function: u32, arguments: &[JsValue]) -> Result<Option<JsValue>, DriverError> {
        let answer = self.guest.apply(JsValue::object(function), arguments)?;
        if answer.is_exception() {
            self.guest.discard_exception()?;
            return Ok(None);
        }
        Ok(Some(answer))
    }

    /// Like [`BootedGuest::ask`], but for work that must be done after a script has ended. An interrupt that arrives
    /// too late for the script is cleared, and the call is repeated.
    pub(super) fn ask_settled(&mut self, function: u32, arguments: &[JsValue]) -> Result<Option<JsValue>, DriverError> {
        let answer = self.ask(function, arguments)?;
        if answer.is_none() && self.take_interrupt()?.is_some() {
            return self.ask(function, arguments);
        }
        Ok(answer)
    }

    /// Returns the promise and the reason of the first unhandled rejection. The list keeps the references.
    pub(super) fn rejection(&mut self) -> Result<Option<(JsValue, JsValue)>, DriverError> {
        // A `struct list_head` has the fields `prev` and `next`. In an entry, the promise and the reason follow these
        // fields.
        let entry = self.guest.read_word(self.at.rejections + 4)?;
        if entry == self.at.rejections {
            return Ok(None);
        }
        let promise = JsValue(self.guest.read_long(entry.saturating_add(8))?);
        let reason = JsValue(self.guest.read_long(entry.saturating_add(16))?);
        Ok(Some((promise, reason)))
    }

    /// Empties the list of unhandled rejections.
    pub(super) fn forget_rejections(&mut self) -> Result<(), DriverError> {
        while let Some((promise, reason)) = self.rejection()? {
            self.guest.mark_handled(promise, reason)?;
            if self.rejection()?.is_some_and(|(next, _)| next == promise) {
                return Err(DriverError::Report("the list of unhandled rejections did not shrink".to_owned()));
            }
        }
        Ok(())
    }
}

/// The class and message of the error that the interpreter throws for an interrupt.
const THROWN: (&str, &str) = ("InternalError", "interrupted");

const INTERRUPTS: [(Interrupt, u32, &str); 3] = [
    (Interrupt::Fuel, 1, "the fuel limit is nearly reached"),
    (Interrupt::Time, 2, "the time limit is nearly reached"),
    (Interrupt::Cancelled, 3, "the execution was cancelled"),
];

/// The counter value that makes the interpreter call the handler at the next call or loop iteration.
const ASK_NOW: u32 = 1;

/// Returns the word with the reason, followed by the counter that makes the interpreter check immediately.
pub(super) fn interrupt_writes(anchors: &Anchors, interrupt: Interrupt) -> Result<Vec<InterruptWrite>, DriverError> {
    let word = INTERRUPTS.iter().find(|(kind, ..)| *kind == interrupt).map_or(0, |(_, word, _)| *word);
    let counter = anchors.get("interrupt_counter")?;
    Ok(vec![InterruptWrite::word(anchors.get("interrupt")?, word), InterruptWrite::word(counter, ASK_NOW)])
}

impl BootedGuest<'_> {
    /// Clears the interrupt word. Returns the reason that the host wrote, or `None` if the host wrote no reason. Call
    /// this method before any other call into the guest, which the interrupt would also stop.
    pub(super) fn take_interrupt(&mut self) -> Result<Option<&'static str>, DriverError> {
        let word = self.guest.read_word(self.at.interrupt)?;
        if word == 0 {
            return Ok(None);
        }
        self.guest.write_word(self.at.interrupt, 0)?;
        Ok(INTERRUPTS.iter().find(|(_, kind, _)| *kind == word).map(|(.., why)| *why))
    }

    /// Returns `true` if the interpreter has not checked the interrupt word since the host wrote it.
    pub(super) fn has_missed_interrupt(&mut self) -> Result<bool, DriverError> {
        Ok(self.guest.read_word(self.at.interrupt_counter)? == ASK_NOW)
    }

    /// Returns `true` if the host has written the interrupt word.
    pub(super) fn is_interrupted(&mut self) -> Result<bool, DriverError> {
        Ok(self.guest.read_word(self.at.interrupt)? != 0)
    }

    /// Prints, describes and consumes the error that an interrupt threw. Returns any other thrown value in `Err`.
    pub(super) fn interrupted(
        &mut self,
        thrown: JsValue,
        why: &str,
        name: &str,
    ) -> Result<Result<RaisedOutcome, JsValue>, DriverError> {
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
            let writes = interrupt_writes(&anchors, kind).unwrap();
            let [word, counter] = writes.as_slice() else { panic!("{writes:?}") };
            assert_eq!((word.at, *counter), (8, InterruptWrite::word(16, 1)));
            assert!(word.word != 0 && !words.contains(&word.word));
            words.push(word.word);
        }
    }
}
