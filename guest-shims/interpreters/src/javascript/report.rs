//! Descriptions of thrown values, produced by the boot scripts.

use super::{guest::JsValue, state::BootedGuest};
use crate::{Diagnostic, DriverError, RaisedOutcome, Script};

/// The result of the functions `facts` and `report` in `driver.js`.
#[derive(Debug, Default)]
pub(super) struct Facts {
    type_name: String,
    message: String,
    traceback: String,
    stack: String,
}

/// A position in a source; lines and columns are counted from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Position {
    pub(super) line: u32,
    pub(super) column: u32,
}

impl Position {
    /// A position after every other position.
    pub(super) const END: Self = Self { line: u32::MAX, column: u32::MAX };

    /// Converts the column from bytes, which QuickJS counts in, to code points.
    fn in_characters(self, source: &str) -> Self {
        let index = usize::try_from(self.line.saturating_sub(1)).unwrap_or(usize::MAX);
        let bytes = usize::try_from(self.column.saturating_sub(1)).unwrap_or(usize::MAX);
        let Some(line) = lines(source).nth(index) else { return self };
        let before = line.char_indices().take_while(|(at, _)| *at < bytes).count();
        Self { line: self.line, column: u32::try_from(before).map_or(self.column, |before| before.saturating_add(1)) }
    }
}

impl Facts {
    /// Returns the innermost position in the file `name`.
    pub(super) fn position(&self, name: &str) -> Option<Position> {
        self.stack.lines().find_map(|frame| position_in(frame, name))
    }

    pub(super) fn is_syntax_error(&self) -> bool {
        self.type_name == "SyntaxError"
    }

    /// Returns `true` if the error means that a module was not found. If so, the source itself is a valid module.
    pub(super) fn is_missing_module(&self) -> bool {
        self.type_name == "ReferenceError" && self.message.starts_with("could not load module")
    }

    /// Returns the error's class and message.
    pub(super) fn kind(&self) -> (&str, &str) {
        (&self.type_name, &self.message)
    }

    /// Converts the description to the error for a script that the host interrupted, at the same position.
    pub(super) fn into_stopped(self, message: &str, name: &str) -> RaisedOutcome {
        let line = self.position(name).map(|position| position.line);
        let traceback = format!("{STOPPED}: {message}\n{}", self.stack);
        RaisedOutcome {
            type_name: STOPPED.to_owned(),
            message: message.to_owned(),
            traceback: traceback.trim_end().to_owned(),
            line,
        }
    }

    pub(super) fn into_diagnostic(self, script: &Script<'_>) -> Diagnostic {
        let place = self.position(script.name).unwrap_or(Position { line: 1, column: 1 });
        let Position { line, column } = place.in_characters(script.source);
        Diagnostic { line, column, message: format!("{}: {}", self.type_name, self.message) }
    }

    pub(super) fn out_of_memory() -> Self {
        let (type_name, message) = OUT_OF_MEMORY;
        Self {
            type_name: type_name.to_owned(),
            message: message.to_owned(),
            traceback: format!("{type_name}: {message}"),
            stack: String::new(),
        }
    }

    pub(super) fn into_raised(self, name: &str) -> RaisedOutcome {
        let line = self.position(name).map(|position| position.line);
        RaisedOutcome { type_name: self.type_name, message: self.message, traceback: self.traceback, line }
    }
}

/// Splits a source into lines by the rules of ECMA-262.
fn lines(source: &str) -> impl Iterator<Item = &str> {
    let mut rest = Some(source);
    std::iter::from_fn(move || {
        let text = rest?;
        let Some(end) = text.find(['\n', '\r', '\u{2028}', '\u{2029}']) else { return rest.take() };
        let (line, after) = text.split_at(end);
        let width = if after.starts_with("\r\n") { 2 } else { after.chars().next().map_or(0, char::len_utf8) };
        rest = after.get(width..);
        Some(line)
    })
}

/// Returns the position in a stack frame such as `    at f (main.js:3:14)`, if the frame is in the file `name`.
fn position_in(frame: &str, name: &str) -> Option<Position> {
    let frame = frame.trim();
    let frame = frame.strip_suffix(')').unwrap_or(frame);
    let (rest, column) = frame.rsplit_once(':')?;
    let (file, line) = rest.rsplit_once(':')?;
    let before = file.strip_suffix(name)?;
    if !(before.is_empty() || before.ends_with('(') || before.ends_with(' ')) {
        return None;
    }
    Some(Position { line: line.parse().ok()?, column: column.parse().ok()? })
}

impl BootedGuest<'_> {
    /// Calls `facts` or `report` in `driver.js` with a thrown value. The caller keeps the reference.
    fn describe(&mut self, function: u32, thrown: JsValue) -> Result<Facts, DriverError> {
        let mut answer = self.guest.apply(JsValue::object(function), &[thrown])?;
        if answer.is_exception() && self.take_interrupt()?.is_some() {
            // The interrupt arrived after the script had thrown, so the description continues.
            self.guest.discard_exception()?;
            answer = self.guest.apply(JsValue::object(function), &[thrown])?;
        }
        if answer.is_exception() {
            let failure = self.guest.exception()?;
            let text = self.guest.text(failure)?;
            self.guest.free(failure)?;
            // Describing a value takes memory. If none is left, the script has run out of memory, too. Without memory
            // for the error, QuickJS throws `null`, or an error that cannot be converted to text.
            let is_memory =
                failure.is_null() || text == Some(Facts::out_of_memory().traceback) || self.is_exhausted()?;
            let facts = if is_memory {
                Facts::out_of_memory()
            } else {
                Facts { traceback: UNDESCRIBED.to_owned(), message: UNDESCRIBED.to_owned(), ..Facts::default() }
            };
            if function == self.at.report {
                self.print_error(&facts.traceback)?;
            }
            return Ok(facts);
        }
        let facts = Facts {
            type_name: self.text_property(answer, "type")?,
            message: self.text_property(answer, "message")?,
            traceback: self.text_property(answer, "traceback")?,
            stack: self.text_property(answer, "stack")?,
        };
        self.guest.free(answer)?;
        // The value was described, but there was not enough memory to read the description.
        let is_lost = facts.traceback.is_empty() || (facts.type_name.is_empty() && facts.message.is_empty());
        if is_lost && self.is_exhausted()? {
            return Ok(Facts::out_of_memory());
        }
        Ok(facts)
    }

    fn is_exhausted(&mut self) -> Result<bool, DriverError> {
        let Some(at) = self.guest.allocate(PROBE_BYTES)? else { return Ok(true) };
        self.guest.release(at)?;
        Ok(false)
    }

    pub(super) fn text_property(&mut self, object: JsValue, name: &str) -> Result<String, DriverError> {
        self.guest.write_text(self.at.key, name.as_bytes())?;
        let value = self.guest.property(object, self.at.key)?;
        if value.is_exception() {
            self.guest.discard_exception()?;
            return Ok(String::new());
        }
        let text = self.guest.text(value)?;
        self.guest.free(value)?;
        Ok(text.unwrap_or_default())
    }

    /// Describes a thrown value without printing it. The caller keeps the reference.
    pub(super) fn facts(&mut self, thrown: JsValue) -> Result<Facts, DriverError> {
        self.describe(self.at.facts, thrown)
    }

    /// Prints a thrown value to standard error, describes it, and consumes it.
    pub(super) fn report(&mut self, thrown: JsValue, name: &str) -> Result<RaisedOutcome, DriverError> {
        // Scripts cannot throw an uninitialized value. Such a value stands for an error that did not fit into memory.
        if thrown.is_uninitialized() || (thrown.is_null() && self.is_exhausted()?) {
            let facts = Facts::out_of_memory();
            self.print_error(&facts.traceback)?;
            return Ok(facts.into_raised(name));
        }
        let facts = self.describe(self.at.report, thrown)?;
        self.guest.free(thrown)?;
        Ok(facts.into_raised(name))
    }
}

/// The size of a test allocation, in bytes. If the allocation fails, a thrown `null` means that QuickJS was out of
/// memory.
const PROBE_BYTES: u32 = 1 << 20;

/// The class and message of the interpreter's error for exhausted memory.
pub(super) const OUT_OF_MEMORY: (&str, &str) = ("InternalError", "out of memory");

/// The class name of the error for an interrupt.
const STOPPED: &str = "Interrupted";

const UNDESCRIBED: &str = "the thrown value cannot be described";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frame_names_its_exact_file() {
        let at = |line, column| Some(Position { line, column });
        assert_eq!(position_in("    at f (<sandbox>:3:14)", "<sandbox>"), at(3, 14));
        assert_eq!(position_in("    at <sandbox>:1:5", "<sandbox>"), at(1, 5));
        assert_eq!(position_in("    at f (/app/a:b.js:3:1)", "/app/a:b.js"), at(3, 1));
        assert_eq!(position_in("    at f (xmain.js:3:1)", "main.js"), None);
        assert_eq!(position_in("    at f (native)", "main.js"), None);
        assert_eq!(position_in("    at f (main.js:99999999999:1)", "main.js"), None);
    }

    #[test]
    fn wide_characters_count_as_one_column() {
        let column = |source, line, column| Position { line, column }.in_characters(source).column;
        assert_eq!(column("\"é😀\" + ;", 1, 12), 8);
        assert_eq!(column("a\u{2029} é b", 2, 5), 4);
        assert_eq!(column("a\r\né b", 2, 4), 3);
        assert_eq!(column("a", 1, 900), 2);
        assert_eq!(column("a", 7, 5), 5);
    }

    #[test]
    fn error_line_is_the_innermost_user_frame() {
        let facts = Facts {
            stack: "    at parse (native)\n    at f (a.js:7:2)\n    at <eval> (a.js:9:1)\n".to_owned(),
            ..Facts::default()
        };
        assert_eq!(facts.position("a.js"), Some(Position { line: 7, column: 2 }));
        assert_eq!(facts.position("b.js"), None);
    }
}
