//! The messages that a guest writes to the tool device, and the record of tool calls in an execution's result.

use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::IntoDeserializer as _, ser::SerializeStruct};
use serde_json::{Map, Value, value::RawValue};

use super::ToolErrorKind;
use crate::{
    from_milliseconds,
    json::{compact, exact_text, raw},
    milliseconds,
};

#[derive(Debug, PartialEq)]
pub(super) enum Message {
    /// A request for the catalogue.
    List,
    Call {
        /// The guest's ID for the call.
        id: u64,
        name: String,
        /// The arguments. An object, unless the guest sent another value.
        arguments: Value,
        /// The arguments as JSON text, with the guest's digits and key order. If the guest has repeated a key, the text
        /// contains only the key's last value, and its integers may be rounded.
        text: String,
        repeats_key: bool,
    },
    /// Sets the timeout of the guest's next read. `None` waits until a reply is available.
    Wait(Option<Duration>),
}

/// The largest ID. JavaScript numbers represent all integers up to this ID exactly.
const MAX_ID: u64 = (1 << 53) - 1;

const NOT_AN_OBJECT: &str = "it is not a JSON object";

/// Returns the reason why the parser rejected a message. The parser converts integers beyond 64 bits to floats, and
/// rejects numbers that no float can represent.
fn rejection_reason(error: &serde_json::Error) -> &'static str {
    let text = error.to_string();
    if text.starts_with("number out of range") {
        "it contains a number beyond 1.8e308; pass an integer of more than 308 digits as a string"
    } else if text.starts_with("recursion limit exceeded") {
        "it is nested more than 127 levels deep"
    } else {
        NOT_AN_OBJECT
    }
}

impl Message {
    /// Parses a message. On failure, returns the reason why the message is invalid. The parser limits nesting to 127
    /// levels.
    pub(super) fn parse(text: &[u8]) -> Result<Self, &'static str> {
        let mut fields = match serde_json::from_slice(text) {
            Ok(Value::Object(fields)) => fields,
            Ok(_) => return Err(NOT_AN_OBJECT),
            Err(error) => return Err(rejection_reason(&error)),
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

    /// Parses only a call's ID, without building values.
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
        let arguments = fields.remove("arguments");
        let exact = match &arguments {
            Some(arguments) => exact_arguments(message, arguments),
            None => Some("{}".to_owned()),
        };
        let arguments = arguments.unwrap_or_else(|| Value::Object(Map::new()));
        let repeats_key = exact.is_none();
        let text = exact.unwrap_or_else(|| arguments.to_string());
        Ok(Self::Call { id, name, arguments, text, repeats_key })
    }
}

/// Returns an upper bound, in bytes, on the host memory that a JSON text takes when parsed into values. Use this bound
/// to check untrusted text before parsing.
///
/// ```
/// assert!(glovebox_core::tools::weight(br#"[{"":0},{"":0}]"#) > 1_000);
/// assert!(glovebox_core::tools::weight(br#""a long text in which { and [ are ordinary characters""#) < 200);
/// ```
///
/// A value takes 32 bytes. An object's first entry allocates a tree node for eleven entries, about 640 bytes. A list's
/// first entry allocates space for four. Text with seven bytes per object therefore grows to ninety times its size,
/// and a guest's memory must be counted before it is allocated. The estimate adds a margin to each of these sizes.
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

/// Returns the JSON text of a message's arguments. Returns `None` if the message repeats the arguments, or a key within
/// them.
fn exact_arguments(message: &[u8], arguments: &Value) -> Option<String> {
    #[derive(serde::Deserialize)]
    struct Envelope<'a> {
        #[serde(borrow)]
        arguments: &'a RawValue,
    }
    let envelope: Envelope<'_> = serde_json::from_slice(message).ok()?;
    exact_text(envelope.arguments.get(), arguments)
}

/// A tool call in an execution's record.
///
/// The JSON form has the members `name`, `arguments`, `result`, `error`, `started_ms` and `duration_ms`. `error` is an
/// object with `type` and `message`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolRecord {
    /// The name that the script called, truncated to 64 characters. A tool with this name need not exist.
    pub name: String,
    /// The arguments as JSON text; `None` if they do not fit into `limits.tool_record_bytes`.
    pub arguments: Option<String>,
    /// The call's outcome.
    pub outcome: ToolOutcome,
    /// The time of the call, relative to the start of the execution.
    pub started: Duration,
    /// The duration of the call, including the time in the queue.
    pub duration: Duration,
}

/// The outcome of a tool call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ToolOutcome {
    /// The tool returned this result, as JSON text; `None` if it does not fit into `limits.tool_record_bytes`.
    Returned(Option<String>),
    /// The call failed or was refused.
    Failed {
        /// The category of the failure.
        kind: ToolErrorKind,
        /// The error message that the script received; `None` if it does not fit into `limits.tool_record_bytes`.
        message: Option<String>,
    },
    /// The execution ended before the call did. The tool may still have completed its work.
    Unfinished,
}

impl ToolOutcome {
    /// Returns the outcome as a word: `returned`, `unfinished`, or the error's class name.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Returned(_) => "returned",
            Self::Failed { kind, .. } => kind.name(),
            Self::Unfinished => "unfinished",
        }
    }
}

impl Serialize for ToolRecord {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Error<'a> {
            r#type: &'static str,
            message: Option<&'a str>,
        }
        let value = |text: &Option<String>| text.as_deref().and_then(raw).map(RawValue::to_owned);
        let (result, error) = match &self.outcome {
            ToolOutcome::Returned(result) => (value(result), None),
            ToolOutcome::Failed { kind, message } => {
                (None, Some(Error { r#type: kind.name(), message: message.as_deref() }))
            }
            ToolOutcome::Unfinished => {
                let message = Some("the execution ended before the tool returned");
                (None, Some(Error { r#type: UNFINISHED, message }))
            }
        };
        let mut out = serializer.serialize_struct("ToolRecord", 6)?;
        out.serialize_field("name", &self.name)?;
        out.serialize_field("arguments", &value(&self.arguments))?;
        out.serialize_field("result", &result)?;
        out.serialize_field("error", &error)?;
        out.serialize_field("started_ms", &milliseconds(self.started))?;
        out.serialize_field("duration_ms", &milliseconds(self.duration))?;
        out.end()
    }
}

/// The error type of a call that was unfinished when the execution ended.
const UNFINISHED: &str = "Unfinished";

impl<'de> Deserialize<'de> for ToolRecord {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct Error {
            r#type: String,
            message: Option<String>,
        }
        #[derive(Deserialize)]
        struct Fields {
            name: String,
            arguments: Option<Box<RawValue>>,
            result: Option<Box<RawValue>>,
            error: Option<Error>,
            started_ms: f64,
            duration_ms: f64,
        }
        let Fields { name, arguments, result, error, started_ms, duration_ms } = Fields::deserialize(deserializer)?;
        let text = |value: Option<Box<RawValue>>| value.map(|value| compact(&value));
        let outcome = match error {
            None => ToolOutcome::Returned(text(result)),
            Some(Error { r#type, .. }) if r#type == UNFINISHED => ToolOutcome::Unfinished,
            Some(Error { r#type, message }) => {
                ToolOutcome::Failed { kind: ToolErrorKind::deserialize(r#type.into_deserializer())?, message }
            }
        };
        let (started, duration) = (from_milliseconds(started_ms), from_milliseconds(duration_ms));
        Ok(Self { name, arguments: text(arguments), outcome, started, duration })
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
    fn tool_messages_are_parsed() {
        assert_eq!(parse(r#"{"list":true}"#), Ok(Message::List));
        assert_eq!(parse(r#"{"wait":null}"#), Ok(Message::Wait(None)));
        assert_eq!(parse(r#"{"wait":0}"#), Ok(Message::Wait(Some(Duration::ZERO))));
        let call = |arguments: Value| {
            let text = arguments.to_string();
            Ok(Message::Call { id: 7, name: "a".into(), arguments, text, repeats_key: false })
        };
        assert_eq!(parse(r#"{"id":7,"name":"a","arguments":{"x":[1]}}"#), call(json!({"x": [1]})));
        assert_eq!(parse(r#"{"id":7,"name":"a"}"#), call(json!({})));
        assert_eq!(
            parse(r#"{"id":7,"name":"a","arguments":[1]}"#),
            call(json!([1])),
            "invalid arguments are reported in the reply to the call"
        );
    }

    #[test]
    fn arguments_keep_the_guests_text() {
        let text = |message: &str| match parse(message) {
            Ok(Message::Call { text, repeats_key, .. }) => (text, repeats_key),
            other => panic!("{other:?}"),
        };
        for (message, expected, repeats_key) in [
            (
                r#"{"id":7,"name":"a","arguments":{"z": 36893488147419103233, "a":1}}"#,
                r#"{"z":36893488147419103233,"a":1}"#,
                false,
            ),
            (r#"{"id":7,"name":"a","arguments":{"z":1},"arguments":{"a":2}}"#, r#"{"a":2}"#, true),
            (r#"{"id":7,"name":"a","arguments":{"z":{"a":1,"a":2}}}"#, r#"{"z":{"a":2}}"#, true),
        ] {
            assert_eq!(text(message), (expected.to_owned(), repeats_key));
        }
    }

    #[test]
    fn malformed_tool_messages_are_rejected() {
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
    fn message_ids_must_be_safe_integers() {
        assert!(parse(r#"{"id":9007199254740990,"name":"a"}"#).is_ok(), "under");
        assert!(parse(r#"{"id":9007199254740991,"name":"a"}"#).is_ok(), "at");
        assert!(parse(r#"{"id":9007199254740992,"name":"a"}"#).is_err(), "over");
    }

    #[test]
    fn deeply_nested_messages_are_rejected_before_recursion() {
        let deep = |levels: usize| {
            format!(r#"{{"id":1,"name":"a","arguments":{}{}}}"#, "[".repeat(levels), "]".repeat(levels))
        };
        assert!(parse(&deep(126)).is_ok(), "under");
        assert_eq!(parse(&deep(128)).unwrap_err(), "it is nested more than 127 levels deep", "over");
        assert!(parse(&deep(400_000)).is_err());
        assert_eq!(parse("[]").unwrap_err(), NOT_AN_OBJECT);
        assert_eq!(parse("{").unwrap_err(), NOT_AN_OBJECT);
    }

    #[test]
    fn numbers_out_of_range_are_rejected() {
        let with = |number: &str| format!(r#"{{"id":1,"name":"a","arguments":[{number}]}}"#);
        assert!(parse(&with(&"9".repeat(308))).is_ok(), "under");
        for number in ["9".repeat(309), format!("-{}", "9".repeat(309)), "1e309".to_owned()] {
            let reason = parse(&with(&number)).unwrap_err();
            assert!(reason.starts_with("it contains a number beyond 1.8e308; "), "over: {number}: {reason}");
        }
    }

    #[test]
    fn estimated_size_covers_the_parsed_message() {
        // The worst cases: objects with one member, empty strings, small numbers, empty lists.
        for (unit, real) in [(r#"{"":0}"#, 632 + 32), (r#""""#, 32), ("0", 32), ("[]", 32), ("[0]", 32 + 4 * 32)] {
            let text = format!("[{}]", vec![unit; 1000].join(","));
            assert!(weight(text.as_bytes()) >= 1000 * real, "{unit}: {}", weight(text.as_bytes()));
        }
    }

    #[test]
    fn strings_are_estimated_by_their_length() {
        let plain = weight(br#"{"a":"xxxxxxxx"}"#);
        assert_eq!(weight(br#"{"a":"{[,{[,{["}"#), plain);
        assert_eq!(weight(br#"{"a":"\"{\"{\""}"#), plain);
        assert!(weight(br#"{"a":"x","b":{}}"#) > plain);
    }
}
