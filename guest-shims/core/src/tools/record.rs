//! The record of tool calls in an execution's result.

use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::IntoDeserializer as _, ser::SerializeStruct};
use serde_json::value::RawValue;

use super::{Answer, ToolErrorKind};
use crate::json::{compact, raw};
use crate::{from_milliseconds, milliseconds};

/// A tool call of an execution.
///
/// Its JSON form has the names `name arguments result error started_ms duration_ms`; `error` is an object with `type`
/// and `message`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolRecord {
    /// The name that the script called, which may not exist. Only the first 64 characters of a long name.
    pub name: String,
    /// The arguments as JSON text; `None` if the record exceeds `tool_record_bytes`.
    pub arguments: Option<String>,
    /// The outcome of the call.
    pub outcome: ToolOutcome,
    /// The time of the call, relative to the start of the execution.
    pub started: Duration,
    /// The duration of the call, including its time in the queue.
    pub duration: Duration,
}

/// The outcome of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ToolOutcome {
    /// The call returned this result, as JSON text; `None` if the record exceeds `tool_record_bytes`.
    Returned(Option<String>),
    /// The call failed, or was refused.
    Failed {
        /// The kind of failure.
        kind: ToolErrorKind,
        /// The script's error message; `None` if the record exceeds `tool_record_bytes`.
        message: Option<String>,
    },
    /// The execution ended first. The handler may still have completed its work.
    Unfinished,
}

impl ToolOutcome {
    /// Returns the outcome in a word: `returned`, `unfinished`, or the name of the error.
    #[must_use]
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

/// The error name of a call that was unfinished at the end of the execution.
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

/// Maximum length of a name in a record, in characters.
const MAX_NAME_CHARS: usize = 64;

/// The records of an execution's calls. Times are relative to its start.
#[derive(Debug)]
pub(super) struct Records {
    list: Vec<ToolRecord>,
    bytes_left: u64,
}

impl Records {
    /// Creates an empty record, whose contents may take `max_bytes`.
    pub(super) fn new(max_bytes: u64) -> Self {
        Self { list: Vec::new(), bytes_left: max_bytes }
    }

    /// Records a call as unfinished and returns its index.
    pub(super) fn begin(&mut self, name: &str, arguments: String, now: Duration) -> usize {
        let arguments = self.keep(arguments);
        self.list.push(ToolRecord {
            name: name.chars().take(MAX_NAME_CHARS).collect(),
            arguments,
            outcome: ToolOutcome::Unfinished,
            started: now,
            duration: Duration::ZERO,
        });
        self.list.len() - 1
    }

    /// Records the outcome of a call.
    pub(super) fn finish(&mut self, index: usize, answer: &Answer, ended: Duration) {
        let outcome = match answer {
            Ok(result) => ToolOutcome::Returned(self.keep(result.clone())),
            Err(failure) => ToolOutcome::Failed { kind: failure.kind, message: self.keep(failure.message.clone()) },
        };
        self.end(index, outcome, ended);
    }

    /// Records that a call did not finish.
    pub(super) fn leave(&mut self, index: usize, now: Duration) {
        self.end(index, ToolOutcome::Unfinished, now);
    }

    fn end(&mut self, index: usize, outcome: ToolOutcome, ended: Duration) {
        if let Some(record) = self.list.get_mut(index) {
            record.outcome = outcome;
            record.duration = ended.saturating_sub(record.started);
        }
    }

    pub(super) fn get(&self, index: usize) -> Option<&ToolRecord> {
        self.list.get(index)
    }

    /// Takes all records.
    pub(super) fn take(&mut self) -> Vec<ToolRecord> {
        std::mem::take(&mut self.list)
    }

    fn keep(&mut self, text: String) -> Option<String> {
        self.bytes_left = self.bytes_left.checked_sub(text.len() as u64)?;
        Some(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools::Failure;

    #[test]
    fn contents_are_recorded_up_to_their_limit_and_calls_beyond() {
        let now = Duration::from_secs(1);
        let mut records = Records::new(10);
        let first = records.begin("a", "12345".into(), now);
        records.finish(first, &Ok("6789".into()), now);
        let second = records.begin("b", "12".into(), now);
        let third = records.begin("c", "1".into(), now);
        let failure = Failure::new(ToolErrorKind::Failed, "x");
        records.finish(second, &Err(failure), now);
        let list = records.take();
        assert_eq!(list[0].outcome, ToolOutcome::Returned(Some("6789".into())), "under");
        assert_eq!(list[1].arguments, None, "over: 9 and 2");
        assert_eq!(list[third].arguments.as_deref(), Some("1"), "at");
        assert_eq!(list[1].outcome, ToolOutcome::Failed { kind: ToolErrorKind::Failed, message: None });
        assert_eq!(list[third].outcome, ToolOutcome::Unfinished);
    }

    #[test]
    fn as_json_a_record_has_its_names_and_values() {
        let begun = Duration::from_millis(100);
        let mut records = Records::new(100);
        let first = records.begin("a", "{\"x\":1}".into(), begun);
        records.finish(first, &Ok("[2]".into()), begun + Duration::from_millis(5));
        let second = records.begin(&"é".repeat(65), "{}".into(), begun);
        records.finish(second, &Err(Failure::new(ToolErrorKind::Unknown, "no")), begun);
        let json = serde_json::to_value(records.take()).unwrap();
        assert_eq!(json[0]["arguments"]["x"], 1);
        assert_eq!(json[0]["result"][0], 2);
        assert!(json[0]["error"].is_null());
        assert_eq!((&json[0]["started_ms"], &json[0]["duration_ms"]), (&100.0.into(), &5.0.into()));
        assert_eq!(json[1]["error"]["type"], "UnknownTool");
        assert_eq!(json[1]["error"]["message"], "no");
        assert_eq!(json[1]["name"].as_str().unwrap().chars().count(), 64);
    }
}
