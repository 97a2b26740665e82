//! The last line on standard error of a script that exceeded a limit. It tells readers of the streams alone why the
//! script stopped.

use glovebox_wasi::{Captured, whole_characters};

use crate::{Outcome, Resource};

/// Appends a line to standard error that names the limit that ended the script: `OutOfFuel`, `TimedOut` or
/// `OutOfMemory`. The line counts as the script's output. If `max_bytes` leave no room for it, it replaces the end of
/// that output.
///
/// Returns the appended text for streaming, or `None` if no limit ended the script.
pub fn name_limit(outcome: &Outcome, stderr: &mut Captured, max_bytes: u64) -> Option<String> {
    let line = line(outcome)?;
    let max = usize::try_from(max_bytes).unwrap_or(usize::MAX);
    let is_open = |bytes: &[u8]| bytes.last().is_some_and(|last| *last != b'\n');
    let mut added = if is_open(&stderr.bytes) { format!("\n{line}") } else { line.clone() };
    let added_bytes = u64::try_from(added.len()).unwrap_or(u64::MAX);
    stderr.total_bytes = stderr.total_bytes.saturating_add(added_bytes);
    if stderr.bytes.len().saturating_add(added.len()) <= max {
        stderr.bytes.extend_from_slice(added.as_bytes());
        return Some(added);
    }
    stderr.truncated = true;
    let room = max.saturating_sub(line.len().saturating_add(1));
    let held = whole_characters(stderr.bytes.get(..room).unwrap_or(&stderr.bytes)).len();
    stderr.bytes.truncate(held);
    if is_open(&stderr.bytes) {
        stderr.bytes.push(b'\n');
    }
    stderr.bytes.extend_from_slice(line.as_bytes());
    stderr.bytes.truncate(max);
    added.truncate(max);
    Some(added)
}

fn line(outcome: &Outcome) -> Option<String> {
    let Outcome::Exhausted { resource, limit, .. } = outcome else { return None };
    Some(match resource {
        Resource::Fuel => format!("OutOfFuel: the script used all of its fuel, {limit} units\n"),
        Resource::Time => format!("TimedOut: the script took longer than {limit} ms\n"),
        Resource::Memory => format!("OutOfMemory: the script wanted more memory than its {limit} bytes\n"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: &str = "TimedOut: the script took longer than 100 ms\n";

    fn captured(text: &str, total_bytes: usize) -> Captured {
        let total_bytes = u64::try_from(total_bytes).unwrap();
        Captured { bytes: text.into(), total_bytes, truncated: total_bytes > u64::try_from(text.len()).unwrap() }
    }

    fn ended(written: &str, total_bytes: usize, max_bytes: usize) -> (Captured, String) {
        let outcome = Outcome::Exhausted { resource: Resource::Time, limit: 100, used: 101 };
        let mut stderr = captured(written, total_bytes);
        let added = name_limit(&outcome, &mut stderr, u64::try_from(max_bytes).unwrap()).unwrap();
        (stderr, added)
    }

    #[test]
    fn each_limit_has_its_name_and_nothing_else_has_a_line() {
        let said = |outcome: &Outcome| name_limit(outcome, &mut captured("", 0), 1_000);
        for (resource, name) in
            [(Resource::Fuel, "OutOfFuel: "), (Resource::Time, "TimedOut: "), (Resource::Memory, "OutOfMemory: ")]
        {
            let line = said(&Outcome::Exhausted { resource, limit: 17, used: 18 }).unwrap();
            assert!(line.starts_with(name) && line.contains("17") && line.ends_with('\n'), "{line}");
        }
        for outcome in [Outcome::Completed, Outcome::Exited { code: 137 }, Outcome::Cancelled] {
            assert_eq!(said(&outcome), None);
        }
    }

    #[test]
    fn it_is_a_line_of_its_own() {
        for (written, added) in [("", LINE.to_owned()), ("a\n", LINE.to_owned()), ("a", format!("\n{LINE}"))] {
            let (stderr, told) = ended(written, written.len(), 1_000);
            let whole = format!("{written}{added}");
            assert_eq!((told, stderr), (added, captured(&whole, whole.len())), "{written:?}");
        }
    }

    #[test]
    fn it_stays_within_the_limit_of_the_stream() {
        let written = "é".repeat(50);
        let whole = format!("{written}\n{LINE}");
        for max in [whole.len(), whole.len() + 1] {
            assert_eq!(ended(&written, 100, max).0, captured(&whole, whole.len()));
        }
        for max in 0..whole.len() {
            let (stderr, told) = ended(&written, 100, max);
            let text = String::from_utf8(stderr.bytes).unwrap();
            assert!(text.len() <= max && stderr.truncated, "{max}");
            assert_eq!(stderr.total_bytes, u64::try_from(whole.len()).unwrap());
            assert!(told.len() <= max && format!("\n{LINE}").starts_with(&told));
            if max < LINE.len() {
                assert_eq!(text, LINE[..max]);
            } else {
                let (before, last) = text.split_at(text.len() - LINE.len());
                assert_eq!(last, LINE);
                assert!(before.is_empty() || before.ends_with("é\n"), "{before}");
                assert!(text.len() + 2 > max || before.is_empty(), "no more was left out than had to be: {max}");
            }
        }
    }

    #[test]
    fn what_was_cut_off_before_is_counted_still() {
        let (stderr, told) = ended("0123456789", 1_000, 60);
        assert_eq!(stderr.bytes, format!("0123456789\n{LINE}").as_bytes());
        assert_eq!((stderr.total_bytes, told.len()), (1_001 + LINE.len() as u64, 1 + LINE.len()));
        assert!(stderr.truncated);
        let (stderr, _) = ended(&"x".repeat(60), 1_000, 60);
        assert_eq!(stderr.bytes, format!("{}\n{LINE}", "x".repeat(59 - LINE.len())).as_bytes());
        assert!(stderr.truncated && stderr.total_bytes > 60);
    }
}
