//! Values for the host, variables that the host reads and sets between executions, and the JSON form of persisted globals
//! (`persist.js`).

use super::{compile::NAME_BYTES, guest::JsValue, report::Facts, state::BootedGuest};
use crate::{
    DriverError, GuestValue, Machine, RaisedOutcome, Value,
    persist::{GlobalJson, Globals, JAVASCRIPT_STATE_FILE, NextGlobal},
};

/// Invalid variable names: the reserved words of ECMA-262 (section 12.7.2) without `await` and `yield`, which sloppy
/// scripts can declare, and with `let` and `static`.
const RESERVED: &str = "\
    break case catch class const continue debugger default delete do else enum export extends false finally for function \
    if import in instanceof let new null return static super switch this throw true try typeof var void while with";

/// Returns `true` if a script can declare a variable with this name. Rust's Unicode tables, which are close to the
/// language's, are sufficient, because the name is only looked up and never evaluated.
pub(super) fn is_identifier(name: &str) -> bool {
    let starts = |c: char| c.is_alphabetic() || matches!(c, '_' | '$');
    let continues = |c: char| c.is_alphanumeric() || matches!(c, '_' | '$' | '\u{200c}' | '\u{200d}');
    let fits = u32::try_from(name.len()).is_ok_and(|bytes| bytes < NAME_BYTES);
    fits && name.starts_with(starts) && name.chars().all(continues) && !RESERVED.split(' ').any(|word| word == name)
}

impl BootedGuest<'_> {
    /// Returns the interpreter's table of `let`, `const` and `class` bindings. The table keeps the reference.
    pub(super) fn lexicals(&mut self) -> Result<JsValue, DriverError> {
        Ok(JsValue(self.guest.read_long(self.at.global.saturating_add(8))?))
    }

    /// Returns a value's printed form. The caller keeps the reference. The inner error is an exception thrown by
    /// reading the value.
    pub(super) fn show(&mut self, value: JsValue) -> Result<Result<GuestValue, JsValue>, DriverError> {
        let shown = self.guest.apply(JsValue::object(self.at.show), &[value])?;
        if shown.is_exception() {
            return Ok(Err(self.guest.exception()?));
        }
        let repr = self.text_property(shown, "repr")?;
        self.guest.write_text(self.at.key, b"json")?;
        let json = self.guest.property(shown, self.at.key)?;
        let text = if json.is_undefined() || json.is_exception() { None } else { self.guest.whole_text(json)? };
        self.guest.free(json)?;
        self.guest.free(shown)?;
        Ok(Ok(GuestValue { repr, json: text }))
    }

    pub(super) fn get_variable(
        &mut self,
        name: &str,
    ) -> Result<Result<Option<GuestValue>, RaisedOutcome>, DriverError> {
        if !is_identifier(name) {
            return Ok(Ok(None));
        }
        let Some(string) = self.string(name)? else { return Ok(Err(Facts::out_of_memory().into_raised(""))) };
        let found = self.variable(string, name)?;
        self.guest.free(string)?;
        let value = match found {
            Ok(Some(value)) => value,
            Ok(None) => return Ok(Ok(None)),
            Err(thrown) => return Ok(Err(self.describe_and_free(thrown)?)),
        };
        let shown = self.show(value)?;
        self.guest.free(value)?;
        match shown {
            Ok(shown) => Ok(Ok(Some(shown))),
            Err(thrown) => Ok(Err(self.describe_and_free(thrown)?)),
        }
    }

    /// Returns a variable's value, or `None` if the variable does not exist. `text` is the name, which must be an
    /// identifier. The inner error is an exception thrown by reading the variable.
    pub(super) fn variable(
        &mut self,
        name: JsValue,
        text: &str,
    ) -> Result<Result<Option<JsValue>, JsValue>, DriverError> {
        let lexicals = self.lexicals()?;
        let found = self.ask(self.at.find, &[lexicals, name])?;
        let Some(table) = found.filter(|table| table.address().is_some()) else { return Ok(Ok(None)) };
        self.guest.write_text(self.at.key, text.as_bytes())?;
        let value = self.guest.property(table, self.at.key)?;
        self.guest.free(table)?;
        if value.is_exception() {
            return Ok(Err(self.guest.exception()?));
        }
        Ok(Ok((!value.is_uninitialized()).then_some(value)))
    }

    pub(super) fn set_variable(&mut self, name: &str, json: &str) -> Result<Result<(), RaisedOutcome>, DriverError> {
        if !is_identifier(name) {
            return Ok(Err(invalid_name(name)));
        }
        // The interpreter's JSON parser rounds integers that a number cannot represent exactly. The boot scripts'
        // parser returns a `BigInt` for such integers.
        let is_text = has_long_number(json);
        let value = if is_text {
            let Some(text) = self.string(json)? else { return Ok(Err(Facts::out_of_memory().into_raised(""))) };
            text
        } else {
            let Some(value) = self.parse_json("value", json)? else {
                return Ok(Err(Facts::out_of_memory().into_raised("")));
            };
            if value.is_exception() {
                return Ok(Err(self.take_exception()?));
            }
            value
        };
        let Some(string) = self.string(name)? else {
            self.guest.free(value)?;
            return Ok(Err(Facts::out_of_memory().into_raised("")));
        };
        let lexicals = self.lexicals()?;
        let is_text = JsValue::int(u32::from(is_text));
        let assigned = self.guest.apply(JsValue::object(self.at.assign), &[lexicals, string, value, is_text])?;
        self.guest.free(string)?;
        self.guest.free(value)?;
        if assigned.is_exception() {
            return Ok(Err(self.take_exception()?));
        }
        Ok(Ok(()))
    }

    /// Creates a string value. Returns `None` if the guest is out of memory.
    pub(super) fn string(&mut self, text: &str) -> Result<Option<JsValue>, DriverError> {
        let Some(at) = self.copy_in(text.as_bytes())? else { return Ok(None) };
        let bytes = u32::try_from(text.len()).unwrap_or_default();
        let string = self.guest.string(at, bytes)?;
        self.free_copy(at)?;
        if string.is_exception() {
            self.guest.discard_exception()?;
            return Ok(None);
        }
        Ok(Some(string))
    }

    /// Describes the pending exception, which has not been printed.
    fn take_exception(&mut self) -> Result<RaisedOutcome, DriverError> {
        let thrown = self.guest.exception()?;
        self.describe_and_free(thrown)
    }

    fn describe_and_free(&mut self, thrown: JsValue) -> Result<RaisedOutcome, DriverError> {
        let facts = self.facts(thrown)?;
        self.guest.free(thrown)?;
        Ok(facts.into_raised(""))
    }
}

fn invalid_name(name: &str) -> RaisedOutcome {
    let shown: String = name.chars().take(100).collect();
    let message = format!("`{shown}` is not a valid variable name; use an identifier, not a reserved word");
    RaisedOutcome {
        type_name: "SyntaxError".to_owned(),
        traceback: format!("SyntaxError: {message}"),
        message,
        line: None,
    }
}

/// The number of digits of 2^53. Numbers cannot represent all integers beyond 2^53.
const LONG_DIGITS: usize = 16;

/// Returns `true` if a string contains at least as many consecutive digits as 2^53 has.
fn has_long_number(json: &str) -> bool {
    json.as_bytes().windows(LONG_DIGITS).any(|digits| digits.iter().all(u8::is_ascii_digit))
}

/// The interpreter's largest small integer.
const MAX_INT: u32 = i32::MAX.cast_unsigned();

impl BootedGuest<'_> {
    /// Parses JSON in the guest. `name` occurs in its error message. Returns an exception if parsing fails, and `None`
    /// if the guest is out of memory.
    fn parse_json(&mut self, name: &str, json: &str) -> Result<Option<JsValue>, DriverError> {
        let Some(at) = self.copy_in(json.as_bytes())? else { return Ok(None) };
        self.guest.write_text(self.at.name, name.as_bytes())?;
        let bytes = u32::try_from(json.len()).unwrap_or(u32::MAX);
        let args = [self.at.context, at, bytes, self.at.name].map(Value::I32);
        let value = self.guest.call_value("JS_ParseJSON", &args)?;
        self.free_copy(at)?;
        Ok(Some(value))
    }

    /// Like [`parse_json`](Self::parse_json), but discards an exception and returns `None`.
    pub(super) fn try_parse_json(&mut self, name: &str, json: &str) -> Result<Option<JsValue>, DriverError> {
        let value = self.parse_json(name, json)?;
        if value.is_some_and(JsValue::is_exception) {
            self.guest.discard_exception()?;
            return Ok(None);
        }
        Ok(value)
    }

    /// Reads the script's global variable `name` as JSON. `text` is the content of the string `name`. Returns `None` if
    /// `keepGlobal` returns no result.
    fn read_global(&mut self, name: JsValue, text: &str, max_bytes: u32) -> Result<Option<GlobalJson>, DriverError> {
        if !is_identifier(text) {
            return Ok(Some(GlobalJson::NotState));
        }
        let (value, is_hidden) = match self.variable(name, text)? {
            Ok(Some(value)) => (value, 0),
            // The script has not reached the `let`. The global that the `let` binding shadows is unchanged.
            Ok(None) => (JsValue::UNDEFINED, 1),
            Err(thrown) => {
                self.guest.free(thrown)?;
                return Ok(Some(GlobalJson::Refused("it cannot be read".to_owned())));
            }
        };
        let encoded = self.ask_settled(self.at.keep_global, &[name, value, JsValue::int(is_hidden)])?;
        self.guest.free(value)?;
        let Some(encoded) = encoded else { return Ok(None) };
        let words = self.guest.text_within(encoded, max_bytes)?;
        self.guest.free(encoded)?;
        // Only a string over the limit is incomplete.
        Ok(Some(words.as_deref().and_then(decode).unwrap_or(GlobalJson::TooLong)))
    }
}

/// Decodes the result of `keepGlobal`.
fn decode(encoded: &str) -> Option<GlobalJson> {
    let mut rest = encoded.chars();
    match rest.next()? {
        '=' => Some(GlobalJson::Text(rest.as_str().to_owned())),
        '!' => Some(GlobalJson::Refused(rest.as_str().to_owned())),
        '-' => Some(GlobalJson::NotState),
        _ => None,
    }
}

impl Globals for BootedGuest<'_> {
    const FILE: &'static str = JAVASCRIPT_STATE_FILE;

    fn machine(&mut self) -> &mut dyn Machine {
        self.guest.machine
    }

    fn restore(&mut self, json: Option<&str>, max_bytes: u64) -> Result<bool, DriverError> {
        let (state, is_whole) = match json {
            None => (JsValue::UNDEFINED, true),
            Some(json) => {
                self.try_parse_json("globals", json)?.map_or((JsValue::UNDEFINED, false), |state| (state, true))
            }
        };
        let max = JsValue::int(u32::try_from(max_bytes).unwrap_or(MAX_INT).min(MAX_INT));
        let done = self.ask(self.at.restore_globals, &[state, max])?;
        self.guest.free(state)?;
        Ok(is_whole && done.is_some())
    }

    fn next(&mut self, max_bytes: u64) -> Result<NextGlobal, DriverError> {
        let lexicals = self.lexicals()?;
        let Some(name) = self.ask_settled(self.at.next_global, &[lexicals])? else { return Ok(NextGlobal::Unreadable) };
        if name.is_undefined() {
            return Ok(NextGlobal::End);
        }
        let Some(text) = self.guest.text(name)? else { return Ok(NextGlobal::Unreadable) };
        // The encoded text has one more character than the JSON text: the leading sign.
        let max = u32::try_from(max_bytes).unwrap_or(u32::MAX).saturating_add(1);
        let json = self.read_global(name, &text, max)?;
        self.guest.free(name)?;
        Ok(json.map_or(NextGlobal::Unreadable, |json| NextGlobal::Global(text, json)))
    }

    fn print_error(&mut self, line: &str) -> Result<(), DriverError> {
        BootedGuest::print_error(self, line)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variable_name_must_be_declarable() {
        for name in ["x", "_", "$", "π", "a1", "naïve", "async", "of", "undefined", "名前"] {
            assert!(is_identifier(name), "{name}");
        }
        for name in ["", "1a", "a b", "a.b", "a-b", "class", "let", "this", "x;y", "a\0", "__proto__\n", "\u{feff}x"] {
            assert!(!is_identifier(name), "{name}");
        }
        let longest = usize::try_from(NAME_BYTES - 1).unwrap();
        assert!(is_identifier(&"x".repeat(longest)));
        assert!(!is_identifier(&"x".repeat(longest + 1)));
    }

    #[test]
    fn unsafe_integers_are_detected() {
        assert!(!has_long_number("[123456789012345, 1]"));
        assert!(has_long_number("[1, -1234567890123456]"));
        assert!(!has_long_number("{}"));
    }

    #[test]
    fn sign_selects_how_a_global_is_decoded() {
        assert_eq!(decode("=[\"é\"]"), Some(GlobalJson::Text("[\"é\"]".to_owned())));
        assert_eq!(decode("!why"), Some(GlobalJson::Refused("why".to_owned())));
        assert_eq!(decode("-"), Some(GlobalJson::NotState));
        for none in ["", "+", "[1]"] {
            assert_eq!(decode(none), None, "{none}");
        }
    }
}
