//! Globals that an execution passes to the next one, in a file in the workspace.
//!
//! The guest decides which globals are the script's and which can be represented as JSON. The guest also produces and
//! parses the JSON text, and pays for this work. The file is checked and written here, because it is untrusted. If it
//! is invalid, a line on standard error says so, and the script runs without stored globals.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::{self, Write as _},
};

use glovebox_wasi::{Errno, FileAt};
use serde::de::IgnoredAny;

use crate::{Driver, DriverError, Machine, Report};

/// The file with Python's globals, in the workspace's top directory.
pub const PYTHON_STATE_FILE: &str = ".globals_py.json";

/// The file with JavaScript's globals, in the workspace's top directory.
pub const JAVASCRIPT_STATE_FILE: &str = ".globals_js.json";

/// Maximum nesting depth of a value. The file nests one level deeper. The host's parsers allow at most 127 levels.
const MAX_DEPTH: usize = 100;

/// The name of an object that exists before the script runs. The object is saved even though its name starts with an
/// underscore.
pub(crate) const STATE: &str = "_state";

/// Maximum length of a name or reason in an error line, in characters. Names and reasons come from the guest.
const SHOWN_CHARS: usize = 200;

/// The guest's answer for one global.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum GlobalJson {
    Text(String),
    /// The global has no JSON form, for this reason.
    Refused(String),
    /// The JSON text exceeds the maximum size of the file.
    TooLong,
    /// The global is skipped without a message, for example because it is a function.
    NotState,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NextGlobal {
    Global(String, GlobalJson),
    /// There are no more globals.
    End,
    /// The guest cannot answer, for example because it is out of memory.
    Unreadable,
}

/// The language-specific operations.
pub(crate) trait Globals {
    /// The file's name in the workspace's top directory.
    const FILE: &'static str;

    fn machine(&mut self) -> &mut dyn Machine;

    /// Sets globals from a JSON object, if there is one, and creates `_state`. Returns `false` if the guest cannot set
    /// the globals. In that case, only `_state` exists.
    fn restore(&mut self, json: Option<&str>, max_bytes: u64) -> Result<bool, DriverError>;

    fn next(&mut self, max_bytes: u64) -> Result<NextGlobal, DriverError>;

    /// Prints a line to the guest's standard error.
    fn print_error(&mut self, line: &str) -> Result<(), DriverError>;
}

/// The result of restoring globals, which is needed to store them after the script.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PersistState {
    max_bytes: u64,
    /// `true` if all stored globals were restored.
    is_restored: bool,
}

impl PersistState {
    /// Restores the stored globals before the script runs.
    pub(crate) fn begin<G: Globals>(globals: &mut G, max_bytes: u64) -> Result<Self, DriverError> {
        let found = globals.machine().file_at(G::FILE, max_bytes)?;
        let wrong = match text_of(&found, max_bytes) {
            Ok(text) if globals.restore(text, max_bytes)? => return Ok(Self { max_bytes, is_restored: true }),
            Ok(_) => "is too large to load".to_owned(),
            Err(wrong) => {
                globals.restore(None, max_bytes)?;
                wrong
            }
        };
        globals
            .print_error(&format!("glovebox: `{}` {wrong}: no globals of earlier executions were loaded", G::FILE))?;
        Ok(Self { max_bytes, is_restored: false })
    }

    /// Stores the globals after the script has ended. If the script was interrupted, stores nothing, because the
    /// globals may be inconsistent.
    pub(crate) fn end<G: Globals>(
        self,
        globals: &mut G,
        report: &Report,
        driver: &dyn Driver,
    ) -> Result<(), DriverError> {
        match report {
            Report::Interrupted(_) => Ok(()),
            // The host may report this exception as an exceeded memory limit.
            Report::Raised(raised) if driver.is_out_of_memory(raised) => {
                report_not_stored(globals, "not enough memory")
            }
            Report::Completed(_) | Report::Exited(_) | Report::Raised(_) => store(globals, self),
        }
    }
}

fn store<G: Globals>(globals: &mut G, persisting: PersistState) -> Result<(), DriverError> {
    let PersistState { max_bytes, is_restored } = persisting;
    let mut state = StoredGlobals::new(max_bytes);
    loop {
        let (name, global) = match globals.next(max_bytes)? {
            NextGlobal::Global(name, global) => (name, global),
            NextGlobal::End => break,
            NextGlobal::Unreadable => return report_not_stored(globals, "the interpreter cannot list them"),
        };
        let left_out = match global {
            GlobalJson::Text(text) => state.add(name, text),
            GlobalJson::TooLong => vec![name],
            GlobalJson::Refused(why) => {
                globals.print_error(&format!(
                    "glovebox: global `{}` was not saved: {}",
                    ShortText(&name),
                    ShortText(&why)
                ))?;
                Vec::new()
            }
            GlobalJson::NotState => Vec::new(),
        };
        for name in left_out {
            globals.print_error(&format!(
                "glovebox: global `{}` was not saved: it does not fit into the {max_bytes} bytes of `limits.persisted_bytes`",
                ShortText(&name)
            ))?;
        }
    }
    let text = state.text();
    // The script may have changed the file.
    let found = globals.machine().file_at(G::FILE, max_bytes)?;
    match &found {
        Ok(FileAt::File(old)) if old == text.as_bytes() => return Ok(()),
        // If there is no state now and none was restored, the file stays unchanged.
        found if state.is_empty() && !(is_restored && matches!(text_of(found, max_bytes), Ok(Some(_)))) => {
            return Ok(());
        }
        Ok(FileAt::Directory) => return report_not_stored(globals, &format!("`{}` is a directory", G::FILE)),
        Ok(FileAt::Link) => return report_not_stored(globals, &format!("`{}` is a symbolic link", G::FILE)),
        _ => {}
    }
    match globals.machine().replace_file(G::FILE, text.as_bytes())? {
        Ok(()) => Ok(()),
        Err(Errno::NoSpc) => report_not_stored(globals, "the workspace is full"),
        Err(_) => report_not_stored(globals, &format!("`{}` cannot be written", G::FILE)),
    }
}

/// Prints the reason why the globals were not stored.
fn report_not_stored<G: Globals>(globals: &mut G, why: &str) -> Result<(), DriverError> {
    globals.print_error(&format!("glovebox: globals were not saved: {why}"))
}

/// Returns the JSON object in a file, `None` if there is no file, or a description of the problem.
fn text_of(found: &Result<FileAt, Errno>, max_bytes: u64) -> Result<Option<&str>, String> {
    let bytes = match found {
        Ok(FileAt::Nothing) => return Ok(None),
        Ok(FileAt::File(bytes)) => bytes,
        Ok(FileAt::TooLong) => {
            return Err(format!("exceeds the {max_bytes} bytes of `limits.persisted_bytes`"));
        }
        Ok(FileAt::Directory) => return Err("is a directory".into()),
        Ok(FileAt::Link) => return Err("is a symbolic link".into()),
        Err(_) => return Err("cannot be read".into()),
    };
    let text = str::from_utf8(bytes).map_err(|_| "is not JSON".to_owned())?;
    if is_too_deep(text) {
        return Err(format!("is nested more than {MAX_DEPTH} levels deep"));
    }
    // Only scan the text, so that memory use does not depend on its size.
    match serde_json::from_str::<IgnoredAny>(text) {
        Err(_) => Err("is not JSON".into()),
        Ok(_) if !text.trim_start().starts_with('{') => Err("is not a JSON object".into()),
        Ok(_) => Ok(Some(text)),
    }
}

/// Returns `true` if brackets nest deeper than is allowed for stored values. For text that is not JSON, the result is
/// arbitrary.
fn is_too_deep(text: &str) -> bool {
    let (mut depth, mut in_string, mut escaped) = (0_usize, false, false);
    for byte in text.bytes() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            b'{' | b'[' if !in_string => {
                depth = depth.saturating_add(1);
                if depth > MAX_DEPTH + 1 {
                    return true;
                }
            }
            b'}' | b']' if !in_string => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    false
}

/// The globals to store, by name. The globals always fit into `max_bytes`, because the largest are omitted.
struct StoredGlobals {
    max_bytes: u64,
    bytes: u64,
    texts: BTreeMap<String, String>,
    /// The size and the name of each global in the file.
    sizes: BTreeSet<(u64, String)>,
}

impl StoredGlobals {
    fn new(max_bytes: u64) -> Self {
        // The braces take two bytes. Each global is counted with a comma, but the last global has none.
        Self { max_bytes, bytes: 1, texts: BTreeMap::new(), sizes: BTreeSet::new() }
    }

    /// Adds a global. Returns the names of the globals that no longer fit, which may include the added global.
    fn add(&mut self, name: String, text: String) -> Vec<String> {
        let size = length(&text).saturating_add(length(&quoted(&name))).saturating_add(2);
        self.bytes = self.bytes.saturating_add(size);
        self.sizes.insert((size, name.clone()));
        self.texts.insert(name, text);
        let mut left_out = Vec::new();
        while self.bytes > self.max_bytes
            && let Some((size, name)) = self.sizes.pop_last()
        {
            self.bytes = self.bytes.saturating_sub(size);
            self.texts.remove(&name);
            left_out.push(name);
        }
        left_out
    }

    fn is_empty(&self) -> bool {
        self.texts.iter().all(|(name, text)| name == STATE && text == "{}")
    }

    /// Returns the JSON text, sorted by name, so that equal globals produce equal files.
    fn text(&self) -> String {
        let mut text = String::from("{");
        for (name, value) in &self.texts {
            let comma = if text.len() > 1 { "," } else { "" };
            // Writing to a string cannot fail.
            let _ = write!(text, "{comma}{}:{value}", quoted(name));
        }
        text.push('}');
        text
    }
}

fn length(text: &str) -> u64 {
    u64::try_from(text.len()).unwrap_or(u64::MAX)
}

fn quoted(name: &str) -> String {
    serde_json::Value::from(name).to_string()
}

/// Untrusted text, shortened for an error line.
struct ShortText<'a>(&'a str);

impl fmt::Display for ShortText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown: String = self.0.chars().take(SHOWN_CHARS).collect();
        glovebox_vfs::escaped_text(&shown).fmt(f)
    }
}

#[cfg(test)]
mod tests;
