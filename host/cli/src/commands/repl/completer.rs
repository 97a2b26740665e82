//! Completion with the Tab key: finds the word to complete, and its completions.

use std::{
    collections::BTreeSet,
    fs,
    path::{MAIN_SEPARATOR, Path},
};

use glovebox::{
    Checkpoints, Commit, HibernateOptions, NetworkPolicy, Policy, ResumeOptions, Sandbox, Session, is_hidden,
};
use rustyline::history::{History, SearchDirection};
use serde_json::json;

use super::{
    directive,
    parser::INDENT,
    tokens::{Dialect, Token, TokenKind, is_name, tokens},
};

/// Maximum number of files to list.
const MAX_FILE_COUNT: usize = 1_000;
/// Maximum number of inputs to search for declarations.
const MAX_INPUT_COUNT: usize = 200;

/// Replacements for the end of the typed text.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Completions {
    /// The byte offset in the typed text at which the replaced part begins.
    pub(super) start: usize,
    pub(super) texts: Vec<String>,
}

/// A completer of commands, names and attributes.
pub(super) struct Completer {
    pub(super) dialect: Dialect,
    /// The sandbox for copies of sessions. Names are looked up in the copies. The sandbox has the runtime of the
    /// sessions and the policy from [`inspection_policy`], but no tools. A query therefore cannot change the session or
    /// have other effects.
    pub(super) inspection: Sandbox,
    /// The session in which the next input runs. `None` if it cannot be used.
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

    fn of_word(&self, word: &IncompleteName<'_>, history: &dyn History) -> Vec<String> {
        let inputs = if word.path.is_empty() { inputs(history) } else { Vec::new() };
        let declared: BTreeSet<&str> = inputs.iter().flat_map(|input| names(self.dialect, input)).collect();
        let session = self.session.as_ref().filter(|session| session.ended().is_none());
        let mut texts = session.map_or_else(Vec::new, |session| self.names_in(session, word, &declared));
        if word.path.is_empty() {
            let keywords = self.dialect.keywords().filter(|keyword| keyword.starts_with(word.prefix));
            texts.extend(keywords.map(str::to_owned));
        }
        // Private names are completed only after a typed underscore.
        texts.retain(|text| !word.prefix.is_empty() || !text.starts_with('_'));
        texts.sort();
        texts.dedup();
        texts
    }

    /// Returns completions of a word: variables of the session, or attributes of a variable. `declared` contains names
    /// that inputs may have declared.
    fn names_in(&self, session: &Session, word: &IncompleteName<'_>, declared: &BTreeSet<&str>) -> Vec<String> {
        let mut names = self.ask(session, &query(self.dialect, word, declared)).unwrap_or_default();
        // The list is untrusted.
        names.retain(|name| is_name(name) && name.starts_with(word.prefix));
        names.truncate(MAX_NAME_COUNT);
        names
    }

    /// Runs a query in a temporary copy of the session. Returns `None` if the query fails, or if the session is too
    /// large to be copied.
    fn ask(&self, session: &Session, query: &str) -> Option<Vec<String>> {
        if session.info().private_bytes > MAX_PRIVATE_BYTES {
            return None;
        }
        let state = session.hibernate(&HibernateOptions::default()).ok()?;
        let copy = self.inspection.resume(&state, ResumeOptions::default()).ok()?;
        let json = copy.execute(query).ok()?.value?.json?;
        if json.len() > MAX_JSON_BYTES { None } else { serde_json::from_str(&json).ok() }
    }
}

/// Returns the latest inputs, newest first.
fn inputs(history: &dyn History) -> Vec<String> {
    let numbers = (0..history.len()).rev().take(MAX_INPUT_COUNT);
    let entries = numbers.filter_map(|number| history.get(number, SearchDirection::Forward).ok().flatten());
    entries.map(|found| found.entry.into_owned()).collect()
}

fn names(dialect: Dialect, input: &str) -> impl Iterator<Item = &str> {
    tokens(dialect, input).into_iter().filter(|token| token.kind == TokenKind::Name).map(|token| token.text)
}

/// Completes a command's name, or its argument if the argument is a file.
fn of_directive(typed: &str) -> Completions {
    match directive::file_argument(typed) {
        Some(path) => {
            let name = path.rsplit(MAIN_SEPARATOR).next().unwrap_or_default();
            Completions { start: typed.len() - name.len(), texts: files(path, name) }
        }
        None => Completions { start: 0, texts: directive::completions(typed) },
    }
}

/// Lists the files and directories next to `path` whose names begin with `name`, the last part of `path`.
fn files(path: &str, name: &str) -> Vec<String> {
    let dir = path.strip_suffix(name).filter(|dir| !dir.is_empty()).unwrap_or(".");
    let Ok(entries) = fs::read_dir(Path::new(dir)) else { return Vec::new() };
    let texts = entries.filter_map(|entry| {
        let entry = entry.ok()?;
        let mut text = entry.file_name().into_string().ok()?;
        // Hidden files are completed only after a typed dot. Names that a terminal cannot show are skipped.
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
pub(super) struct IncompleteName<'a> {
    /// The names before the word, each followed by a dot: `["a", "b"]` for `a.b.c`.
    pub(super) path: Vec<&'a str>,
    /// The position of the word's first character.
    pub(super) start: usize,
    /// The typed part of the word.
    pub(super) prefix: &'a str,
}

/// Returns the word at the end of `typed`. Strings, comments and numbers contain no words. Attributes are completed
/// only after names and dots: the value of any other expression is known only after running it.
fn word_at_end(dialect: Dialect, typed: &str) -> Option<IncompleteName<'_>> {
    let tokens = tokens(dialect, typed);
    let mut before = tokens.as_slice();
    let mut word = IncompleteName { path: Vec::new(), start: typed.len(), prefix: "" };
    if let Some((last, rest)) = before.split_last().filter(|(last, _)| last.end() == typed.len()) {
        match last.kind {
            TokenKind::Name | TokenKind::Keyword => {
                (word.start, word.prefix) = (last.start, last.text);
                before = rest;
            }
            TokenKind::Number | TokenKind::Text | TokenKind::Comment => return None,
            TokenKind::Sign => {}
        }
    }
    while let Some(rest) = without_dot(before) {
        let (receiver, rest) = rest.split_last().filter(|(receiver, _)| receiver.kind == TokenKind::Name)?;
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

const PYTHON: &str = include_str!("names.py");
const JAVASCRIPT: &str = include_str!("names.js");

/// Maximum private memory of a session that is copied, in bytes. Copying more would delay completion noticeably.
const MAX_PRIVATE_BYTES: u64 = 64 << 20;
/// The fuel limit for one query. A query uses a few million units.
const FUEL: u64 = 1_000_000_000;
/// The timeout of one query, which takes a few milliseconds.
const TIMEOUT_MS: u64 = 500;
/// Maximum length of a query's JSON result, in bytes.
const MAX_JSON_BYTES: usize = 512 << 10;
/// Maximum number of names in a query's result.
const MAX_NAME_COUNT: usize = 1_000;

/// Returns the policy for copies of sessions. `of_sessions` is the sessions' own policy.
pub(super) fn inspection_policy(of_sessions: &Policy) -> Policy {
    let mut policy = of_sessions.clone();
    policy.commit = Commit::Never;
    policy.network = NetworkPolicy::default();
    policy.session.checkpoints = Checkpoints::Never;
    policy.limits.fuel = FUEL;
    policy.limits.timeout_ms = TIMEOUT_MS;
    policy
}

/// Returns a query's source. JSON strings are literals in both languages, and `root` is a plain name, so nothing else
/// needs escaping.
fn query(dialect: Dialect, word: &IncompleteName<'_>, declared: &BTreeSet<&str>) -> String {
    let prefix = json!(word.prefix);
    let (root, path) = match word.path.split_first() {
        Some((root, path)) => (Some(*root), json!(path)),
        None => (None, json!([])),
    };
    match (dialect, root) {
        (Dialect::Python, Some(root)) => {
            format!("{PYTHON}GloveboxNames.attributes({}, {path}, {prefix})", json!(root))
        }
        (Dialect::Python, None) => format!("{PYTHON}GloveboxNames.variables({prefix})"),
        (Dialect::JavaScript | Dialect::TypeScript, Some(root)) => {
            format!("{}.attributes({root}, {path}, {prefix})", JAVASCRIPT.trim_end())
        }
        (Dialect::JavaScript | Dialect::TypeScript, None) => {
            let declared = declared.iter().filter(|name| name.starts_with(word.prefix));
            let readers: Vec<String> = declared.map(|name| format!("[{}, () => {name}]", json!(name))).collect();
            format!("{}.variables({prefix}, [{}])", JAVASCRIPT.trim_end(), readers.join(", "))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, fs};

    use glovebox::{Commit, Policy};

    use super::{Completions, FUEL, IncompleteName, inspection_policy, names, of_directive, query, word_at_end};
    use crate::commands::repl::tokens::Dialect::{JavaScript, Python};

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
    fn names_in_inputs_exclude_strings_and_comments() {
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
    fn other_inputs_have_no_completions() {
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

    #[test]
    fn query_asks_for_variables_or_attributes() {
        let declared = BTreeSet::from(["apple", "fig"]);
        for (dialect, path, prefix, end) in [
            (Python, &[][..], "a", "\nGloveboxNames.variables(\"a\")"),
            (Python, &["os", "path"], "ex", "\nGloveboxNames.attributes(\"os\", [\"path\"], \"ex\")"),
            (JavaScript, &[], "a", ".variables(\"a\", [[\"apple\", () => apple]])"),
            (JavaScript, &["x"], "", ".attributes(x, [], \"\")"),
        ] {
            let query = query(dialect, &IncompleteName { path: path.to_vec(), start: 0, prefix }, &declared);
            assert!(query.ends_with(end), "{query}");
        }
    }

    #[test]
    fn inspection_policy_has_no_network_or_commit() {
        let mut sessions = Policy::default();
        sessions.network.allow.push("https://example.com".into());
        let policy = inspection_policy(&sessions);
        assert_eq!((policy.commit, policy.limits.fuel), (Commit::Never, FUEL));
        assert_eq!(policy.network, Policy::default().network);
        policy.check().unwrap();
    }
}
