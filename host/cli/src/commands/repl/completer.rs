//! Completion with the Tab key, and the word that it completes.

use std::{
    collections::BTreeSet,
    fs,
    path::{MAIN_SEPARATOR, Path},
};

use glovebox::{Session, is_hidden};
use rustyline::history::{History, SearchDirection};

use super::{
    dialect::Dialect,
    directive,
    inspector::Inspector,
    parser::INDENT,
    tokens::{Kind, Token, tokens},
};

/// Maximum number of files that are listed.
const MAX_FILE_COUNT: usize = 1_000;
/// Maximum number of inputs that are searched for declarations.
const MAX_INPUT_COUNT: usize = 200;

/// Replacements for the end of the typed text.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Completions {
    /// Position of the replaced text.
    pub(super) start: usize,
    pub(super) texts: Vec<String>,
}

/// Completes directives, names and attributes.
pub(super) struct Completer {
    pub(super) dialect: Dialect,
    pub(super) inspector: Inspector,
    /// Session of the next input. `None` if it cannot be used.
    pub(super) session: Option<Session>,
}

impl Completer {
    /// Returns completions of `typed`, the text before the cursor.
    pub(super) fn completions(&self, typed: &str, history: &dyn History) -> Completions {
        if directive::is_one(typed) {
            return of_directive(typed);
        }
        if typed.rsplit('\n').next().is_some_and(|line| line.trim().is_empty()) {
            return Completions { start: typed.len(), texts: vec![INDENT.to_owned()] };
        }
        match word_at_end(self.dialect, typed) {
            Some(word) => Completions { start: word.start, texts: self.of_word(&word, history) },
            None => Completions { start: typed.len(), texts: Vec::new() },
        }
    }

    fn of_word(&self, word: &Word<'_>, history: &dyn History) -> Vec<String> {
        let inputs = if word.path.is_empty() { inputs(history) } else { Vec::new() };
        let declared: BTreeSet<&str> = inputs.iter().flat_map(|input| names(self.dialect, input)).collect();
        let session = self.session.as_ref().filter(|session| session.ended().is_none());
        let mut texts = session.map_or_else(Vec::new, |session| self.inspector.names(session, word, &declared));
        if word.path.is_empty() {
            let keywords = self.dialect.keywords().filter(|keyword| keyword.starts_with(word.prefix));
            texts.extend(keywords.map(str::to_owned));
        }
        // Private names are only completed from their underscore.
        texts.retain(|text| !word.prefix.is_empty() || !text.starts_with('_'));
        texts.sort();
        texts.dedup();
        texts
    }
}

/// Returns the latest inputs.
fn inputs(history: &dyn History) -> Vec<String> {
    let numbers = (0..history.len()).rev().take(MAX_INPUT_COUNT);
    let entries = numbers.filter_map(|number| history.get(number, SearchDirection::Forward).ok().flatten());
    entries.map(|found| found.entry.into_owned()).collect()
}

/// Returns the names in an input.
fn names(dialect: Dialect, input: &str) -> impl Iterator<Item = &str> {
    tokens(dialect, input).into_iter().filter(|token| token.kind == Kind::Name).map(|token| token.text)
}

/// Completes a directive's name, or its argument if it is a file.
fn of_directive(typed: &str) -> Completions {
    match directive::file_argument(typed) {
        Some(path) => {
            let name = path.rsplit(MAIN_SEPARATOR).next().unwrap_or_default();
            Completions { start: typed.len() - name.len(), texts: files(path, name) }
        }
        None => Completions { start: 0, texts: directive::completions(typed) },
    }
}

/// Lists the files and directories beside `path` whose names begin with `name`, the last part of `path`.
fn files(path: &str, name: &str) -> Vec<String> {
    let dir = path.strip_suffix(name).filter(|dir| !dir.is_empty()).unwrap_or(".");
    let Ok(entries) = fs::read_dir(Path::new(dir)) else { return Vec::new() };
    let texts = entries.filter_map(|entry| {
        let entry = entry.ok()?;
        let mut text = entry.file_name().into_string().ok()?;
        // Hidden files are only completed from their dot. Names that a terminal cannot show are skipped.
        let is_shown = text.starts_with(name) && (!name.is_empty() || !text.starts_with('.'));
        if !is_shown || text.contains(is_hidden) {
            return None;
        }
        if entry.path().is_dir() {
            text.push(MAIN_SEPARATOR);
        }
        Some(text)
    });
    let mut texts: Vec<String> = texts.take(MAX_FILE_COUNT).collect();
    texts.sort();
    texts
}

/// An incomplete name or attribute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Word<'a> {
    /// The names before the word, each followed by a dot: `["a", "b"]` for `a.b.c`.
    pub(super) path: Vec<&'a str>,
    /// Position of the word's first character.
    pub(super) start: usize,
    /// Typed part of the word.
    pub(super) prefix: &'a str,
}

/// Returns the word at the end of `typed`. Strings, comments and numbers contain no words. An attribute of an
/// expression with more than names and dots is not completed: its value is only known after running it.
fn word_at_end(dialect: Dialect, typed: &str) -> Option<Word<'_>> {
    let tokens = tokens(dialect, typed);
    let mut before = tokens.as_slice();
    let mut word = Word { path: Vec::new(), start: typed.len(), prefix: "" };
    if let Some((last, rest)) = before.split_last().filter(|(last, _)| last.end() == typed.len()) {
        match last.kind {
            Kind::Name | Kind::Keyword => {
                (word.start, word.prefix) = (last.start, last.text);
                before = rest;
            }
            Kind::Number | Kind::Text | Kind::Comment => return None,
            Kind::Sign => {}
        }
    }
    while let Some(rest) = without_dot(before) {
        let (receiver, rest) = rest.split_last().filter(|(receiver, _)| receiver.kind == Kind::Name)?;
        word.path.insert(0, receiver.text);
        before = rest;
    }
    (!word.path.is_empty() || !word.prefix.is_empty()).then_some(word)
}

/// Returns the tokens before a final `.` or `?.`.
fn without_dot<'s, 'a>(tokens: &'s [Token<'a>]) -> Option<&'s [Token<'a>]> {
    let (_, rest) = tokens.split_last().filter(|(dot, _)| dot.is_sign("."))?;
    Some(rest.split_last().filter(|(mark, _)| mark.is_sign("?")).map_or(rest, |(_, rest)| rest))
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, fs};

    use super::{
        super::dialect::Dialect::{JavaScript, Python},
        Completions, names, of_directive, word_at_end,
    };

    #[test]
    fn directives_and_their_files_are_completed() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["state.glovebox", "stage", ".hidden", "st\u{1b}[2Jx", "other"] {
            fs::write(dir.path().join(name), "").unwrap();
        }
        fs::create_dir(dir.path().join("stack")).unwrap();
        let at = |rest: &str| format!("{}/{rest}", dir.path().display());
        for (typed, start, texts) in [
            (":fo".to_owned(), 0, vec![":fork "]),
            (format!(":load {}", at("st")), 6 + at("").len(), vec!["stack/", "stage", "state.glovebox"]),
            (format!(":s {}", at("st")), 0, vec![]),
            (format!(":save {}", at("")), 6 + at("").len(), vec!["other", "stack/", "stage", "state.glovebox"]),
            (format!(":load {}", at(".h")), 6 + at("").len(), vec![".hidden"]),
            (format!(":load {}", at("none/x")), 6 + at("none/").len(), vec![]),
            (":undo 1".to_owned(), 0, vec![]),
        ] {
            let texts = texts.into_iter().map(str::to_owned).collect();
            assert_eq!(of_directive(&typed), Completions { start, texts }, "{typed}");
        }
    }

    #[test]
    fn names_of_inputs_may_be_declared() {
        let found: BTreeSet<&str> = names(JavaScript, "let apple = 'pear' + fig.stem // plum").collect();
        assert_eq!(found, BTreeSet::from(["apple", "fig", "stem"]));
    }

    #[test]
    fn names_and_attributes_are_completed() {
        for (dialect, typed, path, prefix) in [
            (Python, "pri", &[][..], "pri"),
            (Python, "x = fo", &[], "fo"),
            (Python, "wh", &[], "wh"),
            (Python, "os.", &["os"], ""),
            (Python, "f(os.path.ex", &["os", "path"], "ex"),
            (Python, "'a.b' + c.d", &["c"], "d"),
            (JavaScript, "a?.b.c", &["a", "b"], "c"),
            (JavaScript, "$x.in", &["$x"], "in"),
        ] {
            let word = word_at_end(dialect, typed).unwrap_or_else(|| panic!("{typed}"));
            assert_eq!((word.path.as_slice(), word.prefix), (path, prefix), "{typed}");
            assert_eq!(word.start, typed.len() - prefix.len(), "{typed}");
        }
    }

    #[test]
    fn nothing_else_is_completed() {
        for (dialect, typed) in [
            (Python, ""),
            (Python, "x = "),
            (Python, "'os."),
            (Python, "# os."),
            (Python, "f().x"),
            (Python, "'a'.up"),
            (Python, "1."),
            (Python, "."),
            (Python, "x[0].y"),
            (JavaScript, "`${a"),
            (JavaScript, "this.x"),
            (JavaScript, "...x.y.."),
        ] {
            assert_eq!(word_at_end(dialect, typed), None, "{typed}");
        }
    }
}
