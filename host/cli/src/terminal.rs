//! Output for people: errors, notes, aligned tables, and escaped text of guests.

use std::{
    error::Error,
    fmt::{self, Write as _},
    io::{self, ErrorKind, IsTerminal, Write},
    iter,
    time::Duration,
};

use anstyle::{AnsiColor, Style};
use glovebox::{EscapedJson, escaped_text, is_control};

/// Exit code if glovebox itself failed, not a guest. `timeout(1)` uses the same number for the same purpose.
pub(crate) const OWN_ERROR_EXIT_CODE: i32 = 125;
/// Exit code if the reader of the output has closed it, like the exit code of a shell command that SIGPIPE ended.
pub(crate) const BROKEN_PIPE_EXIT_CODE: i32 = 141;

pub(crate) const BAD: Style = AnsiColor::Red.on_default().bold();
pub(crate) const GOOD: Style = AnsiColor::Green.on_default().bold();
pub(crate) const CARE: Style = AnsiColor::Yellow.on_default().bold();
pub(crate) const HEAD: Style = Style::new().bold();

/// An error with a hint on a separate line.
#[derive(Debug)]
pub(crate) struct HintedError {
    message: String,
    hint: String,
    source: Option<Box<dyn Error + Send + Sync>>,
}

impl HintedError {
    pub(crate) fn new(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { message: message.into(), hint: hint.into(), source: None }
    }

    pub(crate) fn caused_by(mut self, source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        self.source = Some(source.into());
        self
    }
}

impl fmt::Display for HintedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl Error for HintedError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.source.as_deref().map(|source| source as &(dyn Error + 'static))
    }
}

/// An extension of results that adds a message and a hint to the error.
pub(crate) trait OrHint<T> {
    fn or_hint(self, message: impl FnOnce() -> String, hint: &str) -> Result<T, HintedError>;
}

impl<T, E: Into<Box<dyn Error + Send + Sync>>> OrHint<T> for Result<T, E> {
    fn or_hint(self, message: impl FnOnce() -> String, hint: &str) -> Result<T, HintedError> {
        self.map_err(|error| HintedError::new(message(), hint).caused_by(error))
    }
}

/// Writes an error with its causes and its hint to standard error.
pub(crate) fn report(error: &anyhow::Error) {
    let mut text = format!("{BAD}error:{BAD:#} {}\n", lines(&error.to_string()));
    let mut joined = error.to_string();
    for cause in error.chain().skip(1).map(ToString::to_string) {
        // Many messages already contain the message of their cause.
        if !joined.contains(&cause) {
            let _ = writeln!(text, "  {HEAD}because:{HEAD:#} {}", lines(&cause));
            joined.push_str(&cause);
        }
    }
    for hint in error.chain().filter_map(|cause| cause.downcast_ref::<HintedError>()) {
        let _ = writeln!(text, "  {CARE}hint:{CARE:#} {}", indented(&hint.hint, ""));
    }
    // Failures to write to standard error are ignored.
    let _ = anstream::stderr().write_all(text.as_bytes());
}

/// Writes a line with additional information to standard error, dimmed.
pub(crate) fn dimmed(text: &str) {
    let style = Style::new().dimmed();
    let _ = writeln!(anstream::stderr(), "{style}{}{style:#}", escaped_text(text));
}

/// Writes a line of this program to standard error, marked to distinguish it from the guest's output.
pub(crate) fn note(text: &str) {
    note_escaped(&escaped_text(text).to_string());
}

/// Like [`note`], but for a string of any length that is already escaped.
pub(crate) fn note_escaped(text: &str) {
    let _ = writeln!(anstream::stderr(), "{CARE}glovebox:{CARE:#} {text}");
}

/// Writes text to standard output, in colour if enabled.
pub(crate) fn out(text: &str) -> io::Result<()> {
    let mut out = anstream::stdout();
    out.write_all(text.as_bytes())?;
    out.flush()
}

/// Writes a value to standard output as one line of JSON. On a terminal, control characters are escaped.
pub(crate) fn out_json(value: &impl serde::Serialize) -> anyhow::Result<()> {
    json(value, io::stdout().lock())
}

/// Writes a report to standard output, as JSON if `json` is set and otherwise as text.
pub(crate) fn out_report(
    json: bool,
    report: &impl serde::Serialize,
    text: impl FnOnce() -> String,
) -> anyhow::Result<()> {
    if json { out_json(report) } else { Ok(out(&text())?) }
}

/// Like [`out_json`], but to standard error.
#[cfg(feature = "full")]
pub(crate) fn err_json(value: &impl serde::Serialize) -> anyhow::Result<()> {
    json(value, io::stderr().lock())
}

fn json(value: &impl serde::Serialize, out: impl Write + IsTerminal) -> anyhow::Result<()> {
    // Stream the JSON, because a guest's file names alone can take a quarter of a gigabyte.
    let mut out = io::BufWriter::new(out);
    let written = if out.get_ref().is_terminal() {
        value.serialize(&mut serde_json::Serializer::with_formatter(&mut out, EscapedJson))
    } else {
        serde_json::to_writer(&mut out, value)
    };
    // Convert the error, so that a closed pipe is recognized.
    written.map_err(io::Error::from)?;
    out.write_all(b"\n")?;
    out.flush()?;
    Ok(())
}

/// Writes a guest's bytes to a terminal as [`printable`] text, with `\xNN` for bytes that are not UTF-8.
pub(crate) fn write_printable(out: &mut impl Write, bytes: &[u8]) -> io::Result<()> {
    for chunk in bytes.utf8_chunks() {
        // Write line by line: escaped text can be six times as long, and the whole text can be a gigabyte.
        for line in chunk.valid().split_inclusive('\n') {
            out.write_all(printable(line).as_bytes())?;
        }
        for byte in chunk.invalid() {
            write!(out, "\\x{byte:02x}")?;
        }
    }
    Ok(())
}

/// Returns `true` if an error comes from a closed pipe (`glovebox … | head`).
pub(crate) fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error
        .chain()
        .filter_map(|cause| cause.downcast_ref::<io::Error>())
        .any(|cause| cause.kind() == ErrorKind::BrokenPipe)
}

/// Formats a message of this program, which can have several lines. Names in it are already escaped. Other text from a
/// guest or a file must not imitate the program's lines, so every line after the first is indented. Text longer than
/// about two screens is truncated.
fn lines(text: &str) -> String {
    indented(text, "    ")
}

fn indented(text: &str, indent: &str) -> String {
    const MAX_LINES: usize = 100;
    let more = format!("\n{indent}");
    let mut out =
        text.lines().take(MAX_LINES).map(|line| escaped_text(line).to_string()).collect::<Vec<_>>().join(&more);
    let left = text.lines().skip(MAX_LINES).count();
    if left > 0 {
        let _ = write!(out, "{more}… and {}", format_count(left as u64, "more line"));
    }
    out
}

/// Escapes every control character except for line breaks and tabs. Untrusted text must not control the terminal, or
/// reorder or imitate the text around it.
pub(crate) fn printable(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if is_control(c) && !matches!(c, '\n' | '\t') {
            let _ = write!(out, "{}", c.escape_default());
        } else {
            out.push(c);
        }
    }
    out
}

/// Like [`printable`], but also escapes line breaks and tabs.
pub(crate) fn on_one_line(text: &str) -> String {
    printable(text).replace('\n', "\\n").replace('\t', "\\t")
}

/// Formats a number in groups of three: `10,000,000`.
pub(crate) fn grouped(number: u64) -> String {
    indicatif::HumanCount(number).to_string()
}

/// Formats a count with its noun: `1 input`, `2 inputs`.
pub(crate) fn format_count(count: u64, what: &str) -> String {
    format!("{} {what}{}", grouped(count), if count == 1 { "" } else { "s" })
}

/// Formats a past time in the largest unit that fits.
pub(crate) fn ago(since: Duration) -> String {
    let seconds = since.as_secs();
    let (count, unit) = match seconds {
        0..60 => return "just now".into(),
        60..3_600 => (seconds / 60, "minute"),
        3_600..86_400 => (seconds / 3_600, "hour"),
        _ => (seconds / 86_400, "day"),
    };
    format!("{} ago", format_count(count, unit))
}

/// Formats bytes for people: `25.10 MiB`.
pub(crate) fn bytes(count: u64) -> String {
    indicatif::BinaryBytes(count).to_string()
}

/// The heading of a table's column, and the alignment of its cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Column {
    Left(&'static str),
    Right(&'static str),
}

/// Formats rows in aligned columns below a bold heading. Escapes the cells, so that none breaks out of its line.
pub(crate) fn table<const N: usize>(columns: [Column; N], rows: impl IntoIterator<Item = [String; N]>) -> String {
    let heading = columns.map(|(Column::Left(name) | Column::Right(name))| name.to_owned());
    let rows = iter::once(heading).chain(rows);
    let rows: Vec<[String; N]> = rows.map(|row| row.map(|cell| escaped_text(&cell).to_string())).collect();
    let mut widths = [0; N];
    for row in &rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let mut out = String::new();
    for (number, row) in rows.iter().enumerate() {
        let mut line = String::new();
        for ((cell, width), column) in row.iter().zip(widths).zip(columns) {
            let _ = match column {
                Column::Left(_) => write!(line, "{cell:<width$}  "),
                Column::Right(_) => write!(line, "{cell:>width$}  "),
            };
        }
        let line = line.trim_end();
        let _ = if number == 0 { writeln!(out, "{HEAD}{line}{HEAD:#}") } else { writeln!(out, "{line}") };
    }
    out
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Column, ago, grouped, lines, on_one_line, printable, table, write_printable};

    #[test]
    fn escape_sequences_do_not_reach_the_terminal() {
        assert_eq!(printable("a\x1b[2Jb\nc\u{9b}d\u{202e}\u{2028}"), "a\\u{1b}[2Jb\nc\\u{9b}d\\u{202e}\\u{2028}");
        assert_eq!(on_one_line("a\n\tb\r\u{202e}"), "a\\n\\tb\\r\\u{202e}");
    }

    #[test]
    fn long_text_is_truncated() {
        let text = lines(&format!("a\n{}", "b\n".repeat(200)));
        assert_eq!((text.lines().count(), text.lines().last()), (101, Some("    … and 101 more lines")));
        assert!(lines(&"x".repeat(10 << 20)).len() < 2_000);
        assert_eq!(lines("a\nerror: b\rc\u{feff}"), "a\n    error: b\\rc\\u{feff}");
    }

    #[test]
    fn table_cells_cannot_start_a_row() {
        let rows = [["x\n1  forged\u{2028}".into(), "\u{202e}y".into()]];
        let text = table([Column::Left("a"), Column::Left("b")], rows);
        assert_eq!(text.lines().count(), 2, "{text}");
        assert!(text.contains(r"x\n1  forged\u{2028}  \u{202e}y"), "{text}");
    }

    #[test]
    fn arbitrary_bytes_cannot_control_the_terminal() {
        let mut out = Vec::new();
        write_printable(&mut out, b"a\x1b]0;t\x07\tb\n\xff\xc2\x9bc\xc3\r\n\xc3\xa9\x7f").unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), "a\\u{1b}]0;t\\u{7}\tb\n\\xff\\u{9b}c\\xc3\\r\n\u{e9}\\u{7f}");
    }

    #[test]
    fn numbers_are_grouped_from_the_right() {
        assert_eq!(grouped(7), "7");
        assert_eq!(grouped(999), "999");
        assert_eq!(grouped(1_000), "1,000");
        assert_eq!(grouped(1_234_567), "1,234,567");
    }

    #[test]
    fn durations_use_the_largest_fitting_unit() {
        for (seconds, text) in [
            (0, "just now"),
            (59, "just now"),
            (60, "1 minute ago"),
            (3_599, "59 minutes ago"),
            (3_600, "1 hour ago"),
            (86_399, "23 hours ago"),
            (86_400, "1 day ago"),
            (86_400 * 1_000, "1,000 days ago"),
        ] {
            assert_eq!(ago(Duration::from_secs(seconds)), text, "{seconds}");
        }
    }

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let rows = [["bcd".into(), "10".into()]];
        assert_eq!(table([Column::Left("a"), Column::Right("n")], rows), "\u{1b}[1ma     n\u{1b}[0m\nbcd  10\n");
    }
}
