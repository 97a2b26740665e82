//! What an execution's result says of its calls.

use std::time::{Duration, Instant};

use serde::{Serialize, Serializer, ser::SerializeStruct};
use serde_json::Value;

use super::{ToolErrorKind, reply::Answer};
use crate::execution::milliseconds;

/// One call of a tool in an execution.
///
/// As JSON it has the names `name arguments result error started_ms duration_ms`; `error` is an object with `type` and
/// `message`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ToolRecord {
    /// The name that the script called. It may be no tool's; of a long one the first 64 characters.
    pub name: String,
    /// The arguments as JSON text. None where the record's contents are over `tool_record_bytes`.
    pub arguments: Option<String>,
    /// What became of it.
    pub outcome: ToolOutcome,
    /// When the script called, counted from the start of the execution.
    pub started: Duration,
    /// How long it took, its wait for a turn included.
    pub duration: Duration,
}

/// What became of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ToolOutcome {
    /// It returned this, as JSON text. None where the record's contents are over `tool_record_bytes`.
    Returned(Option<String>),
    /// It failed, or was refused.
    Failed {
        /// How.
        kind: ToolErrorKind,
        /// What the script was told. None where the record's contents are over `tool_record_bytes`.
        message: Option<String>,
    },
    /// The execution ended first. The handler may have done its work all the same.
    Unfinished,
}

impl ToolOutcome {
    /// The outcome in a word: `returned`, `unfinished`, or the name of the error.
    pub(crate) fn word(&self) -> &'static str {
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
        let value = |text: &Option<String>| text.as_deref().and_then(|text| serde_json::from_str::<Value>(text).ok());
        let (result, error) = match &self.outcome {
            ToolOutcome::Returned(result) => (value(result), None),
            ToolOutcome::Failed { kind, message } => {
                (None, Some(Error { r#type: kind.name(), message: message.as_deref() }))
            }
            ToolOutcome::Unfinished => {
                let message = Some("the execution ended before the tool returned");
                (None, Some(Error { r#type: "Unfinished", message }))
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

/// The longest name in a record, in characters.
const NAME_CHARS_MOST: usize = 64;

/// The calls of an execution as they are written down.
#[derive(Debug)]
pub(super) struct Records {
    list: Vec<ToolRecord>,
    begun: Instant,
    bytes_left: u64,
}

impl Records {
    pub(super) fn new(begun: Instant, bytes_most: u64) -> Self {
        Self { list: Vec::new(), begun, bytes_left: bytes_most }
    }

    /// Writes a call down, unfinished, and says which one it is.
    pub(super) fn begin(&mut self, name: &str, arguments: String) -> usize {
        let arguments = self.keep(arguments);
        self.list.push(ToolRecord {
            name: name.chars().take(NAME_CHARS_MOST).collect(),
            arguments,
            outcome: ToolOutcome::Unfinished,
            started: self.begun.elapsed(),
            duration: Duration::ZERO,
        });
        self.list.len() - 1
    }

    /// Writes down what became of a call.
    pub(super) fn finish(&mut self, index: usize, answer: &Answer, ended: Instant) {
        let outcome = match answer {
            Ok(result) => ToolOutcome::Returned(self.keep(result.clone())),
            Err(failure) => ToolOutcome::Failed { kind: failure.kind, message: self.keep(failure.message.clone()) },
        };
        self.end(index, outcome, ended);
    }

    /// Writes down that a call was not waited for.
    pub(super) fn leave(&mut self, index: usize, now: Instant) {
        self.end(index, ToolOutcome::Unfinished, now);
    }

    fn end(&mut self, index: usize, outcome: ToolOutcome, ended: Instant) {
        let since = ended.saturating_duration_since(self.begun);
        if let Some(record) = self.list.get_mut(index) {
            record.outcome = outcome;
            record.duration = since.saturating_sub(record.started);
        }
    }

    pub(super) fn get(&self, index: usize) -> Option<&ToolRecord> {
        self.list.get(index)
    }

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
    use crate::tools::error::Failure;

    #[test]
    fn contents_are_kept_up_to_their_limit_and_calls_beyond() {
        let begun = Instant::now();
        let mut records = Records::new(begun, 10);
        let first = records.begin("a", "12345".into());
        records.finish(first, &Ok("6789".into()), begun);
        let second = records.begin("b", "12".into());
        let third = records.begin("c", "1".into());
        let failure = Failure::new(ToolErrorKind::Failed, "x");
        records.finish(second, &Err(failure), begun);
        let list = records.take();
        assert_eq!(list[0].outcome, ToolOutcome::Returned(Some("6789".into())), "under");
        assert_eq!(list[1].arguments, None, "over: 9 and 2");
        assert_eq!(list[third].arguments.as_deref(), Some("1"), "at");
        assert_eq!(list[1].outcome, ToolOutcome::Failed { kind: ToolErrorKind::Failed, message: None });
        assert_eq!(list[third].outcome, ToolOutcome::Unfinished);
    }

    #[test]
    fn as_json_a_record_has_its_names_and_values() {
        let begun = Instant::now();
        let mut records = Records::new(begun, 100);
        let first = records.begin("a", "{\"x\":1}".into());
        records.finish(first, &Ok("[2]".into()), begun + Duration::from_millis(5));
        let second = records.begin(&"é".repeat(65), "{}".into());
        records.finish(second, &Err(Failure::new(ToolErrorKind::Unknown, "no")), begun);
        let json = serde_json::to_value(records.take()).unwrap();
        assert_eq!(json[0]["arguments"]["x"], 1);
        assert_eq!(json[0]["result"][0], 2);
        assert_eq!(json[0]["error"], Value::Null);
        assert!(json[0]["duration_ms"].as_f64().unwrap() <= 5.0);
        assert_eq!(json[1]["error"]["type"], "UnknownTool");
        assert_eq!(json[1]["error"]["message"], "no");
        assert_eq!(json[1]["name"].as_str().unwrap().chars().count(), 64);
    }
}
