//! The calls of an execution as they are counted, held to their limits and written down.

use std::time::Duration;

use serde_json::Value;

use super::{Answer, Failure, ToolErrorKind, ToolRecord, record::Records};
use crate::Limits;

/// What is said to a guest for whose message there is no room.
pub(super) const NO_ROOM: &str = "the host has no room for the arguments: `limits.memory_bytes` counts them";

/// The calls of one execution. Times are counted from its beginning.
#[derive(Debug)]
pub(super) struct Tally {
    max_calls: u64,
    max_bytes: u64,
    counted: u64,
    refused: u64,
    records: Records,
}

/// A call that is counted and written down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Begun {
    /// Which call of the execution it is.
    pub(super) index: usize,
    /// The bytes of its arguments as JSON text.
    pub(super) bytes: u64,
}

/// How large a call's arguments are.
#[derive(Clone, Copy, Debug)]
pub(super) struct Size {
    /// As JSON text.
    pub(super) bytes: u64,
    /// The most that the tool takes, where `limits.tool_bytes` does not say it.
    pub(super) max_bytes: Option<u64>,
}

impl Tally {
    /// None yet.
    #[must_use]
    pub(super) fn new(limits: &Limits) -> Self {
        Self {
            max_calls: limits.tool_calls,
            max_bytes: limits.tool_bytes,
            counted: 0,
            refused: 0,
            records: Records::new(limits.tool_record_bytes),
        }
    }

    /// The most bytes that a result may have.
    #[must_use]
    pub(super) fn max_bytes(&self) -> u64 {
        self.max_bytes
    }

    /// Counts one that there is no room for.
    pub(super) fn refuse(&mut self) -> Failure {
        self.refused += 1;
        Failure::new(ToolErrorKind::Limit, NO_ROOM)
    }

    /// How many were refused, which are not written down.
    #[must_use]
    pub(super) fn refused(&self) -> u64 {
        self.refused
    }

    /// Counts a call and writes it down, unfinished; one too many is refused.
    pub(super) fn begin(&mut self, name: &str, arguments: &str, now: Duration) -> Result<Begun, Failure> {
        if self.counted >= self.max_calls {
            self.refused += 1;
            let message = format!("an execution may call tools {} times (`limits.tool_calls`)", self.max_calls);
            return Err(Failure::new(ToolErrorKind::Limit, message));
        }
        self.counted += 1;
        let bytes = arguments.len() as u64;
        Ok(Begun { index: self.records.begin(name, arguments.to_owned(), now), bytes })
    }

    /// Whether a call may be made at all, of the tool that was found under its name, if one was.
    pub(super) fn admit<T>(&self, name: &str, tool: Option<T>, arguments: &Value, size: Size) -> Result<T, Failure> {
        let tool = tool.ok_or_else(|| {
            let shown: String = name.chars().take(64).collect();
            Failure::new(ToolErrorKind::Unknown, format!("no tool is called `{shown}`"))
        })?;
        let Size { bytes, max_bytes } = size;
        if bytes > max_bytes.unwrap_or(self.max_bytes) {
            let message = match max_bytes {
                Some(most) => format!("the arguments are {bytes} bytes; `{name}` takes {most}"),
                None => format!("the arguments are {bytes} bytes; `limits.tool_bytes` is {}", self.max_bytes),
            };
            return Err(Failure::new(ToolErrorKind::Limit, message));
        }
        if !arguments.is_object() {
            let message = "the arguments must be an object, by name";
            return Err(Failure::new(ToolErrorKind::InvalidArguments, message));
        }
        Ok(tool)
    }

    /// Writes down what became of a call.
    pub(super) fn finish(&mut self, index: usize, answer: &Answer, ended: Duration) {
        self.records.finish(index, answer, ended);
    }

    /// Writes down that a call was not waited for.
    pub(super) fn leave(&mut self, index: usize, now: Duration) {
        self.records.leave(index, now);
    }

    /// What is written of a call.
    #[must_use]
    pub(super) fn get(&self, index: usize) -> Option<&ToolRecord> {
        self.records.get(index)
    }

    /// What became of each, which is gone here afterwards.
    pub(super) fn take(&mut self) -> Vec<ToolRecord> {
        self.records.take()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn tally(edit: impl FnOnce(&mut Limits)) -> Tally {
        let mut limits = Limits::default();
        edit(&mut limits);
        Tally::new(&limits)
    }

    #[test]
    fn calls_have_a_maximum() {
        let mut tally = tally(|limits| limits.tool_calls = 2);
        let arguments = "{}";
        for index in 0..2 {
            assert_eq!(tally.begin("a", arguments, Duration::ZERO), Ok(Begun { index, bytes: 2 }), "at");
        }
        assert_eq!(tally.begin("a", arguments, Duration::ZERO).unwrap_err().kind, ToolErrorKind::Limit, "over");
        assert_eq!((tally.refused(), tally.take().len()), (1, 2));
        assert_eq!(tally.refuse().message, NO_ROOM);
        assert_eq!(tally.refused(), 2);
    }

    #[test]
    fn arguments_are_held_to_their_limit_and_are_an_object() {
        let tally = tally(|limits| limits.tool_bytes = 10);
        let object = json!({});
        let kind = |tool, arguments, bytes| {
            let size = Size { bytes, max_bytes: None };
            tally.admit("a", tool, arguments, size).map_err(|failure| failure.kind)
        };
        assert_eq!(kind(None::<()>, &object, 1), Err(ToolErrorKind::Unknown));
        for (bytes, fits) in [(9, true), (10, true), (11, false)] {
            assert_eq!(kind(Some(()), &object, bytes), fits.then_some(()).ok_or(ToolErrorKind::Limit), "{bytes}");
        }
        assert_eq!(kind(Some(()), &json!([]), 2), Err(ToolErrorKind::InvalidArguments));
        for (bytes, fits) in [(11, true), (20, true), (21, false)] {
            let size = Size { bytes, max_bytes: Some(20) };
            assert_eq!(tally.admit("a", Some(()), &object, size).is_ok(), fits, "one with its own maximum: {bytes}");
        }
    }
}
