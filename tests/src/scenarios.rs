//! The list of the requirements' scenarios, and who claims them.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

/// `scenarios.txt`: every scenario of the requirements, `spec: title`, one a line.
///
/// A line `[in scope]` or `[out of scope] reason` says what holds for the lines after it.
#[derive(Debug)]
pub struct Scenarios {
    /// Those that a case or a test must show.
    pub in_scope: BTreeSet<String>,
    /// Those that nothing here shows, each with the reason.
    pub out_of_scope: BTreeMap<String, String>,
}

impl Scenarios {
    /// Reads the list beside the tests.
    pub fn load() -> Result<Self, String> {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios.txt");
        Self::parse(&fs::read_to_string(path).map_err(|error| error.to_string())?)
    }

    fn parse(text: &str) -> Result<Self, String> {
        let mut made = Self { in_scope: BTreeSet::new(), out_of_scope: BTreeMap::new() };
        let mut reason: Option<Option<String>> = None;
        for line in text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')) {
            if line == "[in scope]" {
                reason = Some(None);
            } else if let Some(why) = line.strip_prefix("[out of scope]") {
                if why.trim().is_empty() {
                    return Err("`[out of scope]` without a reason".into());
                }
                reason = Some(Some(why.trim().to_owned()));
            } else {
                let known = made.in_scope.contains(line) || made.out_of_scope.contains_key(line);
                if known || !line.contains(": ") {
                    return Err(format!("`{line}` stands twice or is not `spec: title`"));
                }
                match &reason {
                    None => return Err(format!("`{line}` stands before any heading")),
                    Some(None) => made.in_scope.insert(line.to_owned()),
                    Some(Some(why)) => made.out_of_scope.insert(line.to_owned(), why.clone()).is_none(),
                };
            }
        }
        Ok(made)
    }
}

/// The scenarios that tests written in Rust claim with a line `// scenario: spec: title`, in these directories and below.
#[must_use]
pub fn claimed_in_tests(dirs: &[&Path]) -> BTreeSet<String> {
    let mut claimed = BTreeSet::new();
    for dir in dirs {
        for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() {
                claimed.extend(claimed_in_tests(&[&path]));
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = fs::read_to_string(path).unwrap_or_default();
                claimed.extend(
                    text.lines().filter_map(|line| line.trim().strip_prefix("// scenario: ")).map(str::to_owned),
                );
            }
        }
    }
    claimed
}
