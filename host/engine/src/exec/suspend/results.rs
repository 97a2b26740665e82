//! The results of a recorded execution, as digests.

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::{Execution, FileKind, Files, Outcome, Output};

/// The size of the chunks in which files are read for the digest, in bytes.
const PART_BYTES: u64 = 1 << 20;

type Sha256Digest = [u8; 32];

/// The results of an execution that a repeated execution must reproduce.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct RecordedResults {
    /// The outcome as JSON text.
    outcome: String,
    pub(super) fuel_consumed: u64,
    stdout: OutputDigest,
    stderr: OutputDigest,
    value: Sha256Digest,
    displays: Sha256Digest,
    /// The names and arguments of the calls.
    tool_calls: Sha256Digest,
    /// The paths and contents of the changed files.
    files: Sha256Digest,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct OutputDigest {
    total_bytes: u64,
    /// The digest of the retained bytes.
    sha256: Sha256Digest,
}

impl OutputDigest {
    fn of(output: &Output) -> Self {
        Self { total_bytes: output.total_bytes, sha256: Sha256::digest(&output.bytes).into() }
    }
}

/// A digest of several parts.
#[derive(Default)]
struct PartsDigest(Sha256);

impl PartsDigest {
    /// Adds a part, preceded by its length, so that the digest depends on the boundaries between the parts.
    fn add(&mut self, part: &[u8]) {
        self.0.update((part.len() as u64).to_le_bytes());
        self.0.update(part);
    }

    fn finish(self) -> Sha256Digest {
        self.0.finalize().into()
    }
}

impl RecordedResults {
    pub(super) fn of(execution: &Execution) -> Self {
        Self {
            outcome: json(&execution.outcome),
            fuel_consumed: execution.fuel_consumed,
            stdout: OutputDigest::of(&execution.stdout),
            stderr: OutputDigest::of(&execution.stderr),
            value: Sha256::digest(json(&execution.value)).into(),
            displays: displays_digest(execution),
            tool_calls: tool_calls_digest(execution),
            files: files_digest(execution),
        }
    }

    /// Describes the first difference between these results and `now`, the results of the repeated execution.
    pub(super) fn difference(&self, now: &Self, has_unreceived: bool) -> Option<String> {
        if self.outcome != now.outcome {
            return Some(match (described(&now.outcome), described(&self.outcome)) {
                (now, was) if now == was => {
                    format!("the outcome is `{now}` in both, but its details differ (for example the traceback)")
                }
                (now, was) => format!("the outcome is `{now}` instead of `{was}`"),
            });
        }
        if has_unreceived {
            return Some("the script ended before it received all of its recorded inputs".to_owned());
        }
        for (name, was, now) in [("output", &self.stdout, &now.stdout), ("error", &self.stderr, &now.stderr)] {
            if was.total_bytes != now.total_bytes {
                let (was, now) = (was.total_bytes, now.total_bytes);
                return Some(format!("the script wrote {now} bytes to standard {name} instead of {was}"));
            }
            if was != now {
                return Some(format!("the script wrote different text to standard {name}"));
            }
        }
        let parts = [
            ("the tool calls differ", self.tool_calls == now.tool_calls),
            ("the value of the last expression differs", self.value == now.value),
            ("the displays differ", self.displays == now.displays),
            ("the changed files differ", self.files == now.files),
        ];
        if let Some((difference, _)) = parts.iter().find(|(_, is_equal)| !is_equal) {
            return Some((*difference).to_owned());
        }
        let (was, now) = (self.fuel_consumed, now.fuel_consumed);
        (was != now).then(|| format!("the script used {now} units of fuel instead of {was}"))
    }
}

pub(super) fn json(value: &impl Serialize) -> String {
    // Infallible: all maps have text keys.
    serde_json::to_string(value).unwrap_or_default()
}

/// Returns a short description of an outcome in JSON.
fn described(outcome: &str) -> String {
    serde_json::from_str::<Outcome>(outcome).map_or_else(|_| "unknown".to_owned(), |outcome| outcome.describe())
}

fn displays_digest(execution: &Execution) -> Sha256Digest {
    let mut digest = PartsDigest::default();
    for display in &execution.displays {
        digest.add(&[u8::from(display.is_result)]);
        digest.add(&(display.forms.len() as u64).to_le_bytes());
        for form in &display.forms {
            digest.add(form.media_type.as_bytes());
            digest.add(&form.data);
        }
    }
    digest.add(&execution.displays_dropped.to_le_bytes());
    digest.finish()
}

/// Returns a digest of the tool calls without their results. The results are part of the journal, and a call without a
/// result in the recording can have a result in the repeated execution.
fn tool_calls_digest(execution: &Execution) -> Sha256Digest {
    let calls = &execution.tool_calls;
    // The digest includes arguments only if every call has recorded arguments. Arguments share
    // `limits.tool_record_bytes` with results, whose arrival times can differ, so the set of recorded arguments can
    // differ too.
    let has_all = calls.iter().all(|call| call.arguments.is_some());
    let mut digest = PartsDigest::default();
    for call in calls {
        digest.add(call.name.as_bytes());
        digest.add(call.arguments.as_deref().filter(|_| has_all).unwrap_or_default().as_bytes());
    }
    digest.finish()
}

fn files_digest(execution: &Execution) -> Sha256Digest {
    let mut digest = PartsDigest::default();
    let written = [&execution.files_created, &execution.files_modified];
    for paths in written {
        digest.add(&(paths.len() as u64).to_le_bytes());
        for path in paths {
            digest.add(path.as_bytes());
            add_content(&mut digest, execution.files(), path);
        }
    }
    for path in &execution.files_deleted {
        digest.add(path.as_bytes());
    }
    digest.finish()
}

/// Adds the size and contents of a file, which is read in chunks to save memory. For a link, adds only the size.
fn add_content(digest: &mut PartsDigest, files: &Files, path: &str) {
    let Ok(entry) = files.stat(path) else { return };
    digest.add(&entry.size_bytes.to_le_bytes());
    if entry.kind != FileKind::File {
        return;
    }
    let mut offset = 0;
    while offset < entry.size_bytes {
        match files.read_at(path, offset, PART_BYTES) {
            Ok(part) if !part.is_empty() => {
                offset += part.len() as u64;
                digest.add(&part);
            }
            _ => return,
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in super::super) fn results() -> RecordedResults {
        let output = OutputDigest { total_bytes: 3, sha256: [1; 32] };
        RecordedResults {
            outcome: json(&Outcome::Completed),
            fuel_consumed: 7,
            stdout: output,
            stderr: output,
            value: [2; 32],
            displays: [3; 32],
            tool_calls: [4; 32],
            files: [5; 32],
        }
    }

    #[test]
    fn first_difference_is_named() {
        let was = results();
        let changed = |edit: fn(&mut RecordedResults)| {
            let mut now = was.clone();
            edit(&mut now);
            was.difference(&now, false)
        };
        assert_eq!(changed(|_| ()), None);
        let check = |edit, difference| assert_eq!(changed(edit).as_deref(), Some(difference));
        check(|now| now.fuel_consumed = 8, "the script used 8 units of fuel instead of 7");
        check(|now| now.stderr.total_bytes = 4, "the script wrote 4 bytes to standard error instead of 3");
        check(|now| now.stdout.sha256 = [9; 32], "the script wrote different text to standard output");
        check(|now| now.files = [9; 32], "the changed files differ");
        check(
            |now| now.outcome = json(&Outcome::Exited { code: 3 }),
            "the outcome is `exited with 3` instead of `completed`",
        );
        assert!(was.difference(&was, true).unwrap().contains("ended before"));
    }
}
