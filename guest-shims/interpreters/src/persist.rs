//! Globals that one execution leaves to the next, in a file of the workspace.
//!
//! What is a script's own and what of it has a form in JSON, the guest says; it also makes and takes in the text, so that it
//! pays for it. The file is looked at and written here: it is a guest's, and may be anything. Whatever is wrong with it is
//! said in one line on standard error, and the script runs without it.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::{self, Write as _},
};

use glovebox_wasi::{Errno, FileAt};
use serde::de::IgnoredAny;

use crate::{Driver, DriverError, Machine, Report};

/// Where Python's globals are kept, at the top of the workspace.
pub const PYTHON_STATE_FILE: &str = ".globals_py.json";

/// Where JavaScript's globals are kept, at the top of the workspace.
pub const JAVASCRIPT_STATE_FILE: &str = ".globals_js.json";

/// How deep values may be nested, and the file with them one level more. Parsers on the host's side stop at 128.
const MAX_DEPTH: usize = 100;

/// The object that is always there, and kept whole.
pub(crate) const STATE: &str = "_state";

/// What of a name or a reason goes into a line. Both are the guest's.
const SHOWN_CHARS: usize = 200;

/// What a guest says of one of its globals.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Kept {
    /// Its JSON text.
    Json(String),
    /// There is no JSON of it, and why.
    Refused(String),
    /// Its JSON text is longer than the file may be.
    TooLong,
    /// It is no state: a function, say.
    Left,
}

/// The next of a guest's globals.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// By its name.
    Global(String, Kept),
    /// There is no other.
    End,
    /// It has no memory to say it, say.
    Unsayable,
}

/// What a language does for it.
pub(crate) trait Globals {
    /// Where they are kept.
    const FILE: &'static str;

    fn machine(&mut self) -> &mut dyn Machine;

    /// Sets globals to what a JSON object says, none where there is no text, and makes `_state`. `false` if the guest cannot:
    /// it has only `_state` then.
    fn restore(&mut self, json: Option<&str>, max_bytes: u64) -> Result<bool, DriverError>;

    /// The script's globals, one after the other.
    fn next(&mut self, max_bytes: u64) -> Result<Next, DriverError>;

    /// Prints a line to the guest's standard error.
    fn complain(&mut self, line: &str) -> Result<(), DriverError>;
}

/// An execution between the globals that it found and those that it leaves.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Persisting {
    max_bytes: u64,
    /// Whether it has all that was kept.
    is_restored: bool,
}

impl Persisting {
    /// Before the script: gives it the globals that were kept.
    pub(crate) fn begin<G: Globals>(globals: &mut G, max_bytes: u64) -> Result<Self, DriverError> {
        let found = globals.machine().file_at(G::FILE, max_bytes)?;
        let wrong = match text_of(&found, max_bytes) {
            Ok(text) if globals.restore(text, max_bytes)? => return Ok(Self { max_bytes, is_restored: true }),
            Ok(_) => "is more than can be taken in".to_owned(),
            Err(wrong) => {
                globals.restore(None, max_bytes)?;
                wrong
            }
        };
        globals.complain(&format!("glovebox: `{}` {wrong}: there are no globals of earlier executions", G::FILE))?;
        Ok(Self { max_bytes, is_restored: false })
    }

    /// After the script: keeps its globals, unless it was stopped. What was stopped was not done with them.
    pub(crate) fn end<G: Globals>(
        self,
        globals: &mut G,
        report: &Report,
        driver: &dyn Driver,
    ) -> Result<(), DriverError> {
        match report {
            Report::Interrupted(_) => Ok(()),
            // Which its host may count as a limit reached.
            Report::Raised(raised) if driver.is_out_of_memory(raised) => not_kept(globals, "there was no memory left"),
            Report::Completed(_) | Report::Exited(_) | Report::Raised(_) => store(globals, self),
        }
    }
}

fn store<G: Globals>(globals: &mut G, persisting: Persisting) -> Result<(), DriverError> {
    let Persisting { max_bytes, is_restored } = persisting;
    let mut state = State::new(max_bytes);
    loop {
        let (name, kept) = match globals.next(max_bytes)? {
            Next::Global(name, kept) => (name, kept),
            Next::End => break,
            Next::Unsayable => return not_kept(globals, "the interpreter cannot tell them"),
        };
        let left_out = match kept {
            Kept::Json(text) => state.add(name, text),
            Kept::TooLong => vec![name],
            Kept::Refused(why) => {
                globals.complain(&format!("glovebox: global `{}` is not kept: {}", Shown(&name), Shown(&why)))?;
                Vec::new()
            }
            Kept::Left => Vec::new(),
        };
        for name in left_out {
            globals.complain(&format!(
                "glovebox: global `{}` is not kept: it does not fit into the {max_bytes} bytes of `limits.persisted_bytes`",
                Shown(&name)
            ))?;
        }
    }
    let text = state.text();
    // The script may have changed what was there before it.
    let found = globals.machine().file_at(G::FILE, max_bytes)?;
    match &found {
        Ok(FileAt::File(old)) if old == text.as_bytes() => return Ok(()),
        // Where there was no state and is none, what lies there may stay.
        found if state.is_empty() && !(is_restored && matches!(text_of(found, max_bytes), Ok(Some(_)))) => {
            return Ok(());
        }
        Ok(FileAt::Directory) => return not_kept(globals, &format!("`{}` is a directory", G::FILE)),
        Ok(FileAt::Link) => return not_kept(globals, &format!("`{}` is a link", G::FILE)),
        _ => {}
    }
    match globals.machine().replace_file(G::FILE, text.as_bytes())? {
        Ok(()) => Ok(()),
        Err(Errno::NoSpc) => not_kept(globals, "the workspace has no room for them"),
        Err(_) => not_kept(globals, &format!("`{}` cannot be written", G::FILE)),
    }
}

/// Says why the file stays as it is.
fn not_kept<G: Globals>(globals: &mut G, why: &str) -> Result<(), DriverError> {
    globals.complain(&format!("glovebox: globals are not kept: {why}"))
}

/// The JSON object in a file, none where there is no file; or what is wrong with it.
fn text_of(found: &Result<FileAt, Errno>, max_bytes: u64) -> Result<Option<&str>, String> {
    let bytes = match found {
        Ok(FileAt::Nothing) => return Ok(None),
        Ok(FileAt::File(bytes)) => bytes,
        Ok(FileAt::TooLong) => {
            return Err(format!("has more than {max_bytes} bytes, which is `limits.persisted_bytes`"));
        }
        Ok(FileAt::Directory) => return Err("is a directory".into()),
        Ok(FileAt::Link) => return Err("is a link".into()),
        Err(_) => return Err("cannot be read".into()),
    };
    let text = str::from_utf8(bytes).map_err(|_| "is no JSON".to_owned())?;
    if is_too_deep(text) {
        return Err(format!("is nested more than {MAX_DEPTH} levels deep"));
    }
    // Only looked through: nothing is made of it here, however large it would be.
    match serde_json::from_str::<IgnoredAny>(text) {
        Err(_) => Err("is no JSON".into()),
        Ok(_) if !text.trim_start().starts_with('{') => Err("is no JSON object".into()),
        Ok(_) => Ok(Some(text)),
    }
}

/// Whether brackets are nested deeper than values may be that are kept. Of what is no JSON, any answer will do.
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

/// The globals that are kept, by name: never more than fit. The largest are left out for the others.
struct State {
    max_bytes: u64,
    bytes: u64,
    texts: BTreeMap<String, String>,
    /// What each takes in the file, and its name.
    sizes: BTreeSet<(u64, String)>,
}

impl State {
    fn new(max_bytes: u64) -> Self {
        // The braces; each has a colon, and a comma but for the last.
        Self { max_bytes, bytes: 1, texts: BTreeMap::new(), sizes: BTreeSet::new() }
    }

    /// Takes one in, and gives the names of those that are left out for it; it may be its own.
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

    /// In the order of the names, so that equal globals make equal files.
    fn text(&self) -> String {
        let mut text = String::from("{");
        for (name, value) in &self.texts {
            let comma = if text.len() > 1 { "," } else { "" };
            // To a string this cannot fail.
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

/// A guest's words within a line of ours.
struct Shown<'a>(&'a str);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown: String = self.0.chars().take(SHOWN_CHARS).collect();
        glovebox_vfs::escaped_text(&shown).fmt(f)
    }
}

#[cfg(test)]
mod tests;
