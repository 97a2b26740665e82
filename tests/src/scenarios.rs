//! The list of the requirements' scenarios, who claims them, and the page made of both.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
    fs,
    path::Path,
};

use crate::Case;

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

/// The scenarios that are claimed, each with the links to its cases and tests as the page has them.
#[derive(Debug, Default)]
pub struct Claims(BTreeMap<String, BTreeSet<String>>);

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

    /// How many there are of each specification.
    #[must_use]
    pub fn counts(&self) -> BTreeMap<&str, usize> {
        let mut counts = BTreeMap::new();
        for name in self.in_scope.iter().chain(self.out_of_scope.keys()) {
            *counts.entry(spec_and_title(name).0).or_default() += 1;
        }
        counts
    }

    /// What is wrong between the list and those who claim: a claim of what is not in scope, and what nobody claims.
    #[must_use]
    pub fn problems(&self, claims: &Claims) -> Vec<String> {
        let unknown = claims.0.iter().filter(|(name, _)| !self.in_scope.contains(*name));
        let unknown = unknown.map(|(name, by)| format!("no such scenario in scope: `{name}`, of {by:?}"));
        let missing = self.in_scope.iter().filter(|name| !claims.0.contains_key(*name));
        unknown.chain(missing.map(|name| format!("in scope, and nothing shows it: `{name}`"))).collect()
    }

    /// The page: a line for each, with what shows it or why nothing can.
    #[must_use]
    pub fn page(&self, claims: &Claims) -> String {
        let mut page = String::from(
            "# Scenarios\n\n\
             Every scenario of the requirements, and the test that holds it: a case, which runs on every backend, or a test in Rust; or\n\
             the reason why there is none. `tests/scenarios.txt` has the list, cases and tests say what they show, and this page is made\n\
             of both, `BLESS=1 cargo test --workspace --test all scenarios::`: a scenario that nothing shows fails there.\n",
        );
        let all: BTreeSet<&String> = self.in_scope.iter().chain(self.out_of_scope.keys()).collect();
        let mut last = "";
        for name in all {
            let (spec, title) = spec_and_title(name);
            if spec != last {
                let _ = write!(page, "\n## {spec}\n\n| scenario | held by |\n|---|---|\n");
                last = spec;
            }
            let held = match self.out_of_scope.get(name) {
                Some(reason) => format!("none: {reason}"),
                None => claims.0.get(name).into_iter().flatten().cloned().collect::<Vec<_>>().join(", "),
            };
            let _ = writeln!(page, "| {title} | {held} |");
        }
        page
    }
}

fn spec_and_title(name: &str) -> (&str, &str) {
    name.split_once(": ").unwrap_or((name, ""))
}

impl Claims {
    /// Adds what a case claims.
    pub fn add_case(&mut self, case: &Case) {
        for scenario in &case.scenarios {
            self.add(scenario, format!("[`{0}`](../tests/cases/{0})", case.name));
        }
    }

    /// Adds what tests written in Rust claim, in a directory and below. `place` is the directory's path from the root.
    pub fn add_tests(&mut self, dir: &Path, place: &str) -> Result<(), String> {
        let entries = fs::read_dir(dir).map_err(|error| format!("`{place}`: {error}"))?;
        for entry in entries.flatten() {
            let path = entry.path();
            let place = format!("{place}/{}", entry.file_name().to_string_lossy());
            if path.is_dir() {
                self.add_tests(&path, &place)?;
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = fs::read_to_string(&path).map_err(|error| format!("`{place}`: {error}"))?;
                self.add_text(&text, &place)?;
            }
        }
        Ok(())
    }

    /// A line `// scenario: …` is followed by others, comments and attributes, and by the function, which is a test: it has the
    /// attribute, or is named in a trial.
    fn add_text(&mut self, text: &str, place: &str) -> Result<(), String> {
        let mut scenarios = Vec::new();
        let mut is_test = false;
        for line in text.lines().map(str::trim) {
            if let Some(scenario) = line.strip_prefix("// scenario: ") {
                scenarios.push(scenario);
            } else if scenarios.is_empty() || line.starts_with("//") {
            } else if line.starts_with("#[") {
                is_test |= line == "#[test]";
            } else {
                let name = line.strip_prefix("fn ").and_then(|rest| rest.split_once('(')).map(|(name, _)| name);
                let name = name.ok_or_else(|| format!("{place}: {scenarios:?} stands above no function"))?;
                if !is_test && !text.contains(&format!("(\"{name}\"")) {
                    return Err(format!("{place}: `{name}` claims {scenarios:?} and is no test"));
                }
                for scenario in scenarios.drain(..) {
                    self.add(scenario, format!("[`{place}::{name}`](../{place})"));
                }
                is_test = false;
            }
        }
        if scenarios.is_empty() { Ok(()) } else { Err(format!("{place}: {scenarios:?} stands above nothing")) }
    }

    fn add(&mut self, scenario: &str, link: String) {
        self.0.entry(scenario.to_owned()).or_default().insert(link);
    }
}

#[cfg(test)]
mod tests {
    use super::{Claims, Scenarios};

    const LIST: &str = "[in scope]\na: One\na: Two\n[out of scope] why not\nb: Three\n";
    const TESTS: &str = "// scenario: a: One\n// scenario: a: Two\n/// Text.\n#[test]\nfn both() {}\n";

    fn claims(text: &str) -> Result<Claims, String> {
        let mut claims = Claims::default();
        claims.add_text(text, "tests/x.rs").map(|()| claims)
    }

    #[test]
    fn a_list_has_each_once_below_a_heading() {
        for wrong in ["a: One\n", "[in scope]\na: One\na: One\n", "[in scope]\nOne\n", "[out of scope]\na: One\n"] {
            Scenarios::parse(wrong).unwrap_err();
        }
        let twice = Scenarios::parse(&format!("{LIST}[in scope]\nb: Three\n"));
        twice.unwrap_err();
        assert_eq!(Scenarios::parse(LIST).unwrap().counts().into_iter().collect::<Vec<_>>(), [("a", 2), ("b", 1)]);
    }

    #[test]
    fn each_in_scope_is_claimed_and_nothing_else_is() {
        let list = Scenarios::parse(LIST).unwrap();
        assert_eq!(list.problems(&claims(TESTS).unwrap()), Vec::<String>::new());
        let removed = TESTS.replace("// scenario: a: Two\n", "");
        assert_eq!(list.problems(&claims(&removed).unwrap()), ["in scope, and nothing shows it: `a: Two`"]);
        let misspelt = TESTS.replace("Two", "Tow");
        assert_eq!(list.problems(&claims(&misspelt).unwrap()).len(), 2);
        let outside = format!("{TESTS}// scenario: b: Three\n#[test]\nfn three() {{}}\n");
        assert_eq!(list.problems(&claims(&outside).unwrap()).len(), 1);
    }

    #[test]
    fn only_tests_claim() {
        claims("// scenario: a: One\nfn helper() {}\n").unwrap_err();
        claims("// scenario: a: One\nconst X: u8 = 1;\n").unwrap_err();
        claims("// scenario: a: One\n").unwrap_err();
        claims("// scenario: a: One\nfn trial() {}\nTrial::test(\"trial\", trial);\n").unwrap();
    }

    #[test]
    fn the_page_has_a_line_for_each() {
        let page = Scenarios::parse(LIST).unwrap().page(&claims(TESTS).unwrap());
        assert!(
            page.contains("## a\n\n| scenario | held by |\n|---|---|\n| One | [`tests/x.rs::both`](../tests/x.rs) |\n"),
            "{page}"
        );
        assert!(page.ends_with("## b\n\n| scenario | held by |\n|---|---|\n| Three | none: why not |\n"), "{page}");
    }
}
