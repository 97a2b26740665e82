//! The messages that a guest writes to the device.

use std::time::Duration;

use serde_json::{Map, Value, value::RawValue};

use crate::json::exact_text;

/// A message from a guest.
#[derive(Debug, PartialEq)]
pub(super) enum Message {
    /// Requests the catalogue.
    List,
    /// Calls a tool.
    Call {
        /// The guest's id for the call.
        id: u64,
        /// The tool's name.
        name: String,
        /// The arguments: an object, unless the guest sent another value.
        arguments: Value,
        /// The arguments as JSON text, as the guest wrote them.
        text: String,
    },
    /// Sets the timeout of its next read; `None` waits until a reply is due.
    Wait(Option<Duration>),
}

/// The largest integer that JSON preserves in JavaScript.
const MAX_ID: u64 = (1 << 53) - 1;

impl Message {
    /// Parses a message, or returns the reason why it is invalid. The parser bounds nesting at 128 levels.
    pub(super) fn parse(text: &[u8]) -> Result<Self, &'static str> {
        let Ok(Value::Object(mut fields)) = serde_json::from_slice(text) else {
            return Err("it is not a JSON object, or is nested more than 128 levels deep");
        };
        let message = if let Some(list) = fields.remove("list") {
            (list == Value::Bool(true)).then_some(Self::List).ok_or("`list` must be true")
        } else if let Some(wait) = fields.remove("wait") {
            match wait {
                Value::Null => Ok(Self::Wait(None)),
                wait => {
                    let wait = wait.as_u64().ok_or("`wait` must be a whole number of milliseconds, or null")?;
                    Ok(Self::Wait(Some(Duration::from_millis(wait))))
                }
            }
        } else {
            Self::call(&mut fields, text)
        }?;
        if fields.is_empty() { Ok(message) } else { Err("it has an unknown key") }
    }

    /// Parses only the id of a call, without building values.
    #[must_use]
    pub(super) fn id(text: &[u8]) -> Option<u64> {
        #[derive(serde::Deserialize)]
        struct Envelope {
            id: u64,
        }
        serde_json::from_slice::<Envelope>(text).ok().map(|envelope| envelope.id).filter(|id| *id <= MAX_ID)
    }

    fn call(fields: &mut Map<String, Value>, message: &[u8]) -> Result<Self, &'static str> {
        let id = fields.remove("id").and_then(|id| id.as_u64()).filter(|id| *id <= MAX_ID);
        let id = id.ok_or("`id` must be a whole number below 2^53")?;
        let Some(Value::String(name)) = fields.remove("name") else { return Err("`name` must be a string") };
        let arguments = fields.remove("arguments").unwrap_or_else(|| Value::Object(Map::new()));
        let text = arguments_text(message, &arguments);
        Ok(Self::Call { id, name, arguments, text })
    }
}

/// Returns an upper bound of the host memory that a JSON text takes as values, in bytes. Use it to check untrusted text
/// before parsing.
///
/// ```
/// assert!(glovebox_core::tools::weight(br#"[{"":0},{"":0}]"#) > 1_000);
/// assert!(glovebox_core::tools::weight(br#""a long text in which { and [ are nothing else than text""#) < 200);
/// ```
///
/// A value is 32 bytes; an object's first entry allocates a tree node for eleven, some 640 bytes; a list's first entry
/// takes four values. A text with seven bytes per object grows to ninety times its size, and memory for a guest must be
/// counted before it is allocated.
#[must_use]
pub fn weight(text: &[u8]) -> u64 {
    const VALUE: u64 = 64;
    const OBJECT: u64 = 768;
    const ARRAY: u64 = 192;
    let mut sum = text.len() as u64;
    let mut bytes = text.iter();
    while let Some(byte) = bytes.next() {
        sum += match byte {
            b'{' => OBJECT,
            b'[' => ARRAY,
            b',' => VALUE,
            b'"' => {
                while let Some(byte) = bytes.next() {
                    match byte {
                        b'\\' => drop(bytes.next()),
                        b'"' => break,
                        _ => {}
                    }
                }
                VALUE
            }
            _ => 0,
        };
    }
    sum
}

/// Returns the text of a message's arguments.
fn arguments_text(message: &[u8], arguments: &Value) -> String {
    #[derive(serde::Deserialize)]
    struct Envelope<'a> {
        #[serde(borrow)]
        arguments: &'a RawValue,
    }
    match serde_json::from_slice::<Envelope<'_>>(message) {
        Ok(envelope) => exact_text(envelope.arguments.get(), arguments),
        // The field is missing or repeated.
        Err(_) => arguments.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn parse(text: &str) -> Result<Message, &'static str> {
        Message::parse(text.as_bytes())
    }

    #[test]
    fn messages_are_read() {
        assert_eq!(parse(r#"{"list":true}"#), Ok(Message::List));
        assert_eq!(parse(r#"{"wait":null}"#), Ok(Message::Wait(None)));
        assert_eq!(parse(r#"{"wait":0}"#), Ok(Message::Wait(Some(Duration::ZERO))));
        let call = |arguments: Value| {
            let text = arguments.to_string();
            Ok(Message::Call { id: 7, name: "a".into(), arguments, text })
        };
        assert_eq!(parse(r#"{"id":7,"name":"a","arguments":{"x":[1]}}"#), call(json!({"x": [1]})));
        assert_eq!(parse(r#"{"id":7,"name":"a"}"#), call(json!({})));
        assert_eq!(parse(r#"{"id":7,"name":"a","arguments":[1]}"#), call(json!([1])), "the call itself is answered");
    }

    #[test]
    fn the_text_of_arguments_is_as_the_guest_wrote_it() {
        let text = |message: &str| match parse(message) {
            Ok(Message::Call { text, .. }) => text,
            other => panic!("{other:?}"),
        };
        assert_eq!(
            text(r#"{"id":7,"name":"a","arguments":{"z": 36893488147419103233, "a":1}}"#),
            r#"{"z":36893488147419103233,"a":1}"#
        );
        assert_eq!(text(r#"{"id":7,"name":"a","arguments":{"z":1},"arguments":{"a":2}}"#), r#"{"a":2}"#);
    }

    #[test]
    fn what_is_no_message_is_refused() {
        let wrong = [
            "",
            "null",
            "[]",
            "{}",
            "\u{0}",
            r#"{"list":false}"#,
            r#"{"list":true,"id":1}"#,
            r#"{"wait":-1}"#,
            r#"{"wait":1.5}"#,
            r#"{"wait":"1"}"#,
            r#"{"id":1}"#,
            r#"{"name":"a"}"#,
            r#"{"id":-1,"name":"a"}"#,
            r#"{"id":1.5,"name":"a"}"#,
            r#"{"id":"1","name":"a"}"#,
            r#"{"id":1,"name":2}"#,
            r#"{"id":1,"name":"a","ok":1}"#,
            r#"{"id":1,"name":"a"} {}"#,
        ];
        for text in wrong {
            assert!(parse(text).is_err(), "{text}");
        }
        assert!(Message::parse(b"{\"list\":true,\"\xff\":1}").is_err(), "it must be UTF-8");
    }

    #[test]
    fn ids_are_those_that_javascript_can_hold() {
        assert!(parse(r#"{"id":9007199254740990,"name":"a"}"#).is_ok(), "under");
        assert!(parse(r#"{"id":9007199254740991,"name":"a"}"#).is_ok(), "at");
        assert!(parse(r#"{"id":9007199254740992,"name":"a"}"#).is_err(), "over");
    }

    #[test]
    fn deep_nesting_is_refused_before_it_reaches_a_stack() {
        let deep = |levels: usize| {
            format!(r#"{{"id":1,"name":"a","arguments":{}{}}}"#, "[".repeat(levels), "]".repeat(levels))
        };
        assert!(parse(&deep(126)).is_ok(), "under");
        assert!(parse(&deep(128)).is_err(), "over");
        assert!(parse(&deep(400_000)).is_err());
    }

    #[test]
    fn a_text_weighs_more_than_what_it_becomes() {
        // The worst cases: objects of one entry, empty strings, small numbers, empty lists.
        for (unit, real) in [(r#"{"":0}"#, 632 + 32), (r#""""#, 32), ("0", 32), ("[]", 32), ("[0]", 32 + 4 * 32)] {
            let text = format!("[{}]", vec![unit; 1000].join(","));
            assert!(weight(text.as_bytes()) >= 1000 * real, "{unit}: {}", weight(text.as_bytes()));
        }
    }

    #[test]
    fn text_inside_strings_weighs_its_length() {
        let plain = weight(br#"{"a":"xxxxxxxx"}"#);
        assert_eq!(weight(br#"{"a":"{[,{[,{["}"#), plain);
        assert_eq!(weight(br#"{"a":"\"{\"{\""}"#), plain);
        assert!(weight(br#"{"a":"x","b":{}}"#) > plain);
    }
}
