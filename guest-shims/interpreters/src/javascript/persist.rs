//! Persists JavaScript globals, with the functions in `persist.js`.

use super::{guest::JsValue, state::Booted, variables::is_identifier};
use crate::{
    DriverError, Machine, Value,
    persist::{GlobalJson, Globals, JAVASCRIPT_STATE_FILE, NextGlobal},
};

/// The interpreter's largest small integer.
const MAX_INT: u32 = i32::MAX.cast_unsigned();

impl Booted<'_> {
    /// Parses JSON in the guest. Returns `None` if parsing fails, for example because the guest is out of memory.
    fn parsed(&mut self, json: &str) -> Result<Option<JsValue>, DriverError> {
        let Some(at) = self.copy_in(json.as_bytes())? else { return Ok(None) };
        self.guest.write_text(self.at.name, b"globals")?;
        let bytes = u32::try_from(json.len()).unwrap_or(u32::MAX);
        let args = [self.at.context, at, bytes, self.at.name].map(Value::I32);
        let value = self.guest.call_value("JS_ParseJSON", &args)?;
        self.free_copy(at)?;
        if value.is_exception() {
            self.guest.discard_exception()?;
            return Ok(None);
        }
        Ok(Some(value))
    }

    /// Reads the JSON form of the script's global `name`, whose text is `text`.
    fn read_global(&mut self, name: JsValue, text: &str, max_bytes: u32) -> Result<Option<GlobalJson>, DriverError> {
        if !is_identifier(text) {
            return Ok(Some(GlobalJson::NotState));
        }
        let (value, is_hidden) = match self.variable(name, text)? {
            Ok(Some(value)) => (value, 0),
            // The script has not reached the `let`. The global that it shadows is unchanged.
            Ok(None) => (JsValue::UNDEFINED, 1),
            Err(thrown) => {
                self.guest.free(thrown)?;
                return Ok(Some(GlobalJson::Refused("it cannot be read".to_owned())));
            }
        };
        let said = self.ask_settled(self.at.keep_global, &[name, value, JsValue::int(is_hidden)])?;
        self.guest.free(value)?;
        let Some(said) = said else { return Ok(None) };
        let words = self.guest.text_within(said, max_bytes)?;
        self.guest.free(said)?;
        // Only a text over the limit is incomplete.
        Ok(Some(words.as_deref().and_then(decode).unwrap_or(GlobalJson::TooLong)))
    }
}

/// Decodes the result of `keepGlobal`.
fn decode(said: &str) -> Option<GlobalJson> {
    let mut rest = said.chars();
    match rest.next()? {
        '=' => Some(GlobalJson::Text(rest.as_str().to_owned())),
        '!' => Some(GlobalJson::Refused(rest.as_str().to_owned())),
        '-' => Some(GlobalJson::NotState),
        _ => None,
    }
}

impl Globals for Booted<'_> {
    const FILE: &'static str = JAVASCRIPT_STATE_FILE;

    fn machine(&mut self) -> &mut dyn Machine {
        self.guest.machine
    }

    fn restore(&mut self, json: Option<&str>, max_bytes: u64) -> Result<bool, DriverError> {
        let (state, is_whole) = match json {
            None => (JsValue::UNDEFINED, true),
            Some(json) => self.parsed(json)?.map_or((JsValue::UNDEFINED, false), |state| (state, true)),
        };
        let most = JsValue::int(u32::try_from(max_bytes).unwrap_or(MAX_INT).min(MAX_INT));
        let done = self.ask(self.at.restore_globals, &[state, most])?;
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
        // Includes the leading sign.
        let most = u32::try_from(max_bytes).unwrap_or(u32::MAX).saturating_add(1);
        let json = self.read_global(name, &text, most)?;
        self.guest.free(name)?;
        Ok(json.map_or(NextGlobal::Unreadable, |json| NextGlobal::Global(text, json)))
    }

    fn print_error(&mut self, line: &str) -> Result<(), DriverError> {
        Booted::print_error(self, line)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
