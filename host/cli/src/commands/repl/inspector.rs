//! Reads names from a session for completion.
//!
//! A query runs in a copy of the session, which is dropped afterwards. The copy's sandbox has small limits, no tools
//! and no network, and does not commit files to host directories. A hostile answer to a query cannot change the
//! session.

use std::collections::BTreeSet;

use glovebox::{Checkpoints, Commit, HibernateOptions, NetworkPolicy, Policy, ResumeOptions, Sandbox, Session};
use serde_json::json;

use super::{completer::Word, dialect::Dialect, tokens::is_name};

const PYTHON: &str = include_str!("names.py");
const JAVASCRIPT: &str = include_str!("names.js");

/// Maximum private memory of a session that is copied. Copying more would delay the Tab key noticeably.
const MAX_PRIVATE_BYTES: u64 = 64 << 20;
/// Fuel of one query. A query uses a few million units.
const FUEL: u64 = 1_000_000_000;
/// Timeout of one query, which takes a few milliseconds.
const TIMEOUT_MS: u64 = 500;
/// Maximum length of an answer in bytes.
const MAX_JSON_BYTES: usize = 512 << 10;
/// Maximum number of names.
const MAX_NAME_COUNT: usize = 1_000;

/// Reads names from copies of sessions.
#[derive(Debug)]
pub(super) struct Inspector {
    sandbox: Sandbox,
    dialect: Dialect,
}

impl Inspector {
    /// `sandbox` must have the runtime of the sessions and the policy of [`policy`].
    pub(super) fn new(sandbox: Sandbox, dialect: Dialect) -> Self {
        Self { sandbox, dialect }
    }

    /// Returns completions of a word: variables of the session, or attributes of one. `declared` contains names that
    /// inputs may have declared.
    pub(super) fn names(&self, session: &Session, word: &Word<'_>, declared: &BTreeSet<&str>) -> Vec<String> {
        let mut names = self.ask(session, &query(self.dialect, word, declared)).unwrap_or_default();
        // The list is untrusted.
        names.retain(|name| is_name(name) && name.starts_with(word.prefix));
        names.truncate(MAX_NAME_COUNT);
        names
    }

    /// Runs a query. Returns `None` if it fails, or if the session is too large to be copied.
    fn ask(&self, session: &Session, query: &str) -> Option<Vec<String>> {
        if session.info().private_bytes > MAX_PRIVATE_BYTES {
            return None;
        }
        let state = session.hibernate(&HibernateOptions::default()).ok()?;
        let copy = self.sandbox.resume(&state, ResumeOptions::default()).ok()?;
        let json = copy.execute(query).ok()?.value?.json?;
        if json.len() > MAX_JSON_BYTES {
            return None;
        }
        serde_json::from_str(&json).ok()
    }
}

/// Returns the policy for copies of sessions that have the policy `of_sessions`.
pub(super) fn policy(of_sessions: &Policy) -> Policy {
    let mut policy = of_sessions.clone();
    policy.commit = Commit::Never;
    policy.network = NetworkPolicy::default();
    policy.session.checkpoints = Checkpoints::Never;
    policy.limits.fuel = FUEL;
    policy.limits.timeout_ms = TIMEOUT_MS;
    policy
}

/// Returns the source of a query. JSON strings are literals in both languages, and `root` is a name.
fn query(dialect: Dialect, word: &Word<'_>, declared: &BTreeSet<&str>) -> String {
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
    use std::collections::BTreeSet;

    use glovebox::{Commit, Policy};

    use super::{
        super::{
            completer::Word,
            dialect::Dialect::{JavaScript, Python},
        },
        FUEL, policy, query,
    };

    #[test]
    fn a_query_asks_for_variables_or_attributes() {
        let declared = BTreeSet::from(["apple", "fig"]);
        for (dialect, path, prefix, end) in [
            (Python, &[][..], "a", "\nGloveboxNames.variables(\"a\")"),
            (Python, &["os", "path"], "ex", "\nGloveboxNames.attributes(\"os\", [\"path\"], \"ex\")"),
            (JavaScript, &[], "a", ".variables(\"a\", [[\"apple\", () => apple]])"),
            (JavaScript, &["x"], "", ".attributes(x, [], \"\")"),
        ] {
            let query = query(dialect, &Word { path: path.to_vec(), start: 0, prefix }, &declared);
            assert!(query.ends_with(end), "{query}");
        }
    }

    #[test]
    fn a_copy_reaches_nothing() {
        let mut sessions = Policy::default();
        sessions.network.allow.push("https://example.com".into());
        let policy = policy(&sessions);
        assert_eq!((policy.commit, policy.limits.fuel), (Commit::Never, FUEL));
        assert_eq!(policy.network, Policy::default().network);
        policy.check().unwrap();
    }
}
