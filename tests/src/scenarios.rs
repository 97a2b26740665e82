//! The list of the requirements' scenarios, the cases and tests that claim them, and the page made from both.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
    fs,
    path::Path,
};

use glovebox::Language;

use crate::{Action, Case};

/// `scenarios.txt`: every scenario of the requirements, in one of three states.
///
/// ```text
/// [held]
/// spec: title
///     shows: what one of its cases and tests contains
/// [differs]
/// spec: title
///     why: what is otherwise here.
/// [none] Why there is nothing.
/// spec: title
/// ```
///
/// A sentence beside a heading applies to all rows below it that have none of their own.
#[derive(Debug)]
pub struct Scenarios(BTreeMap<String, Row>);

#[derive(Debug)]
struct Row {
    state: State,
    why: String,
    shows: Vec<String>,
}

/// The state of a scenario.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum State {
    /// It holds, and a case or a test shows it.
    Held,
    /// Something else exists instead, which a case or a test shows.
    Differs,
    /// Nothing.
    None,
}

impl State {
    const ALL: [Self; 3] = [Self::Held, Self::Differs, Self::None];

    fn name(self) -> &'static str {
        match self {
            Self::Held => "held",
            Self::Differs => "differs",
            Self::None => "none",
        }
    }

    /// The state of a heading, and the sentence beside it.
    fn of_heading(line: &str) -> Option<(Self, &str)> {
        let (name, sentence) = line.strip_prefix('[')?.split_once(']')?;
        Some((Self::ALL.into_iter().find(|state| state.name() == name)?, sentence.trim()))
    }
}

/// The claimed scenarios, and the cases and tests that claim each, by their links on the page.
#[derive(Debug, Default)]
pub struct Claims(BTreeMap<String, BTreeMap<String, Claimant>>);

/// The text of a case or a test, in which a row's `shows` is searched.
#[derive(Debug)]
enum Claimant {
    /// A case: its scripts and expectations in each of its languages.
    Case(BTreeMap<Language, String>),
    /// A test in Rust: its function.
    Test(String),
}

impl Claimant {
    /// The text for this language; `None` if the case is of the other one.
    fn text(&self, language: Language) -> Option<&str> {
        match self {
            Self::Case(texts) => texts.get(&language).map(String::as_str),
            Self::Test(body) => Some(body),
        }
    }
}

impl Scenarios {
    /// Reads the list beside the tests.
    pub fn load() -> Result<Self, String> {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios.txt");
        Self::parse(&fs::read_to_string(path).map_err(|error| error.to_string())?)
    }

    fn parse(text: &str) -> Result<Self, String> {
        let mut rows: BTreeMap<String, Row> = BTreeMap::new();
        let mut heading = None;
        let mut current: Option<String> = None;
        for line in text.lines().filter(|line| !line.trim().is_empty() && !line.starts_with('#')) {
            if let Some(detail) = line.strip_prefix("    ") {
                let row = current.as_ref().and_then(|name| rows.get_mut(name));
                let row = row.ok_or_else(|| format!("`{detail}` stands below no scenario"))?;
                match detail.split_once(": ") {
                    Some(("why", why)) => why.clone_into(&mut row.why),
                    Some(("shows", shown)) => row.shows.push(shown.to_owned()),
                    _ => return Err(format!("`{detail}` is neither `why: …` nor `shows: …`")),
                }
            } else if line.starts_with('[') {
                heading = Some(State::of_heading(line).ok_or_else(|| format!("`{line}` is no heading"))?);
                current = None;
            } else {
                let (state, why) = heading.ok_or_else(|| format!("`{line}` stands before any heading"))?;
                if rows.contains_key(line) || !line.contains(": ") {
                    return Err(format!("`{line}` stands twice or is not `spec: title`"));
                }
                rows.insert(line.to_owned(), Row { state, why: why.to_owned(), shows: Vec::new() });
                current = Some(line.to_owned());
            }
        }
        for (name, row) in &rows {
            if (row.state == State::Held) != row.why.is_empty() {
                return Err(format!("`{name}`: what is held has no sentence, and what is not has one"));
            }
            if row.state == State::None && !row.shows.is_empty() {
                return Err(format!("`{name}`: nothing shows what there is none of"));
            }
        }
        Ok(Self(rows))
    }

    /// The number of scenarios of each specification.
    #[must_use]
    pub fn counts(&self) -> BTreeMap<&str, usize> {
        let mut counts = BTreeMap::new();
        for name in self.0.keys() {
            *counts.entry(spec_and_title(name).0).or_default() += 1;
        }
        counts
    }

    /// Every disagreement between the list and the claims: a claimed scenario that is not held, one that nobody claims,
    /// and a `shows` that its claimants do not contain.
    #[must_use]
    pub fn problems(&self, claims: &Claims) -> Vec<String> {
        let none = BTreeMap::new();
        let is_there = |name: &String| self.0.get(name).is_some_and(|row| row.state != State::None);
        let unknown = claims.0.iter().filter(|(name, _)| !is_there(name));
        let mut problems: Vec<String> =
            unknown.map(|(name, by)| format!("no such scenario is held: `{name}`, of {:?}", by.keys())).collect();
        for (name, row) in self.0.iter().filter(|(_, row)| row.state != State::None) {
            let by = claims.0.get(name).unwrap_or(&none);
            let language = language_of(spec_and_title(name).0);
            let texts: Vec<&str> = by.values().filter_map(|claimant| claimant.text(language)).collect();
            if texts.is_empty() {
                problems.push(format!("{}, and nothing shows it in {language}: `{name}`", row.state.name()));
                continue;
            }
            for shown in row.shows.iter().filter(|shown| !texts.iter().any(|text| text.contains(shown.as_str()))) {
                problems.push(format!("`{name}` is to show `{shown}`, and none of {:?} does", by.keys()));
            }
        }
        problems
    }

    /// The page: a line for each scenario, with its state and what shows it or why nothing does.
    #[must_use]
    pub fn page(&self, claims: &Claims) -> String {
        let count = |state| self.0.values().filter(|row| row.state == state).count();
        let mut page = format!(
            "# Scenarios\n\n\
             Every scenario of the requirements: {} are *held*, {} *differ*, of {} there is *none*.\n\n\
             * *held*: all that it asks for is so, and the cases and tests that are named show it. A case runs on every backend that can be asked for it.\n\
             * *differs*: it is otherwise here, as the sentence says, and what is named shows that.\n\
             * *none*: there is nothing of it, for the reason that is given.\n\n\
             `tests/scenarios.txt` has the list, cases and tests say what they show, and this page is made of both, `BLESS=1 cargo test\n\
             --workspace --test all scenarios::`. A scenario that nothing shows fails there, and so does one whose cases and tests lack what\n\
             the list says that they show.\n",
            count(State::Held),
            count(State::Differs),
            count(State::None),
        );
        let mut last = "";
        for (name, row) in &self.0 {
            let (spec, title) = spec_and_title(name);
            if spec != last {
                let _ = write!(page, "\n## {spec}\n\n| scenario | | by, or why |\n|---|---|---|\n");
                last = spec;
            }
            let links = claims.0.get(name).into_iter().flat_map(BTreeMap::keys).cloned().collect::<Vec<_>>().join(", ");
            let text = [row.why.as_str(), &links].into_iter().filter(|text| !text.is_empty()).collect::<Vec<_>>();
            let _ = writeln!(page, "| {title} | {} | {} |", row.state.name(), text.join(" "));
        }
        page
    }

    /// The sentences, which may only name existing files and functions.
    pub fn sentences(&self) -> impl Iterator<Item = &str> {
        self.0.values().map(|row| row.why.as_str())
    }
}

fn spec_and_title(name: &str) -> (&str, &str) {
    name.split_once(": ").unwrap_or((name, ""))
}

/// The language of a specification.
fn language_of(spec: &str) -> Language {
    match spec {
        "python-runtime" | "repl-sandbox" => Language::Python,
        _ => Language::JavaScript,
    }
}

impl Claims {
    /// Adds the claims of a case.
    pub fn add_case(&mut self, case: &Case) {
        for scenario in &case.scenarios {
            let link = format!("[`{0}`](../tests/cases/{0})", case.name);
            let claimant = self.of(scenario).entry(link).or_insert_with(|| Claimant::Case(BTreeMap::new()));
            if let Claimant::Case(texts) = claimant {
                texts.insert(case.language, shown_by(case));
            }
        }
    }

    /// Adds the claims of tests in a directory and below, in Rust and in TypeScript. `place` is the directory's path from the root.
    pub fn add_tests(&mut self, dir: &Path, place: &str) -> Result<(), String> {
        let entries = fs::read_dir(dir).map_err(|error| format!("`{place}`: {error}"))?;
        let declared = ["main.rs", "mod.rs"].iter().find_map(|name| fs::read_to_string(dir.join(name)).ok());
        for entry in entries.flatten() {
            let path = entry.path();
            let place = format!("{place}/{}", entry.file_name().to_string_lossy());
            let name = path.file_stem().unwrap_or_default().to_string_lossy();
            let is_compiled = ["main", "mod"].contains(&&*name)
                || declared.as_ref().is_none_or(|text| text.contains(&format!("mod {name};")));
            if path.is_dir() && is_compiled {
                self.add_tests(&path, &place)?;
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = fs::read_to_string(&path).map_err(|error| format!("`{place}`: {error}"))?;
                if !is_compiled && text.contains("// scenario: ") {
                    return Err(format!("{place}: claims scenarios, and no test program has it"));
                }
                self.add_text(&text, &place)?;
            } else if path.extension().is_some_and(|extension| extension == "ts") {
                let text = fs::read_to_string(&path).map_err(|error| format!("`{place}`: {error}"))?;
                self.add_typescript(&text, &place)?;
            }
        }
        Ok(())
    }

    /// In TypeScript the lines are followed by the test: a call of a function with its name and what it does.
    fn add_typescript(&mut self, text: &str, place: &str) -> Result<(), String> {
        let mut scenarios = BTreeSet::new();
        let lines: Vec<&str> = text.lines().collect();
        for (number, line) in lines.iter().map(|line| line.trim()).enumerate() {
            if let Some(scenario) = line.strip_prefix("// scenario: ") {
                if !scenarios.insert(scenario) {
                    return Err(format!("{place}: `{scenario}` is claimed twice by the same test"));
                }
            } else if !scenarios.is_empty() {
                let is_test = line.starts_with("test('") || line.starts_with("of('");
                let name = is_test.then(|| line.split('\'').nth(1)).flatten();
                let name = name.ok_or_else(|| format!("{place}: {scenarios:?} stands above no test"))?;
                for scenario in std::mem::take(&mut scenarios) {
                    let link = format!("[`{place}`: {name}](../{place})");
                    self.of(scenario).insert(link, Claimant::Test(block(&lines[number..], "});")));
                }
            }
        }
        if scenarios.is_empty() { Ok(()) } else { Err(format!("{place}: {scenarios:?} stands above nothing")) }
    }

    /// A line `// scenario: …` may be followed by others, comments and attributes, and then by the function, which must
    /// be a test that runs: it has the attribute, or a trial names it.
    fn add_text(&mut self, text: &str, place: &str) -> Result<(), String> {
        let mut scenarios = BTreeSet::new();
        let mut attributes = Vec::new();
        let lines: Vec<&str> = text.lines().collect();
        for (number, line) in lines.iter().map(|line| line.trim()).enumerate() {
            if let Some(scenario) = line.strip_prefix("// scenario: ") {
                if !scenarios.insert(scenario) {
                    return Err(format!("{place}: `{scenario}` is claimed twice by the same test"));
                }
            } else if scenarios.is_empty() || line.starts_with("//") {
            } else if line.starts_with("#[") {
                attributes.push(line);
            } else {
                let name = line.strip_prefix("fn ").and_then(|rest| rest.split_once('(')).map(|(name, _)| name);
                let name = name.ok_or_else(|| format!("{place}: {scenarios:?} stands above no function"))?;
                let is_test = attributes.contains(&"#[test]") || text.contains(&format!("(\"{name}\""));
                if !is_test || attributes.iter().any(|attribute| attribute.starts_with("#[ignore")) {
                    return Err(format!("{place}: `{name}` claims {scenarios:?} and is no test that runs"));
                }
                for scenario in std::mem::take(&mut scenarios) {
                    let link = format!("[`{place}::{name}`](../{place})");
                    self.of(scenario).insert(link, Claimant::Test(function(&lines[number..])));
                }
                attributes.clear();
            }
        }
        if scenarios.is_empty() { Ok(()) } else { Err(format!("{place}: {scenarios:?} stands above nothing")) }
    }

    fn of(&mut self, scenario: &str) -> &mut BTreeMap<String, Claimant> {
        self.0.entry(scenario.to_owned()).or_default()
    }
}

/// What a case does and expects in its language, without its own description.
fn shown_by(case: &Case) -> String {
    let mut text = case.policy.to_toml();
    for step in &case.steps {
        match &step.action {
            Action::Run { source, request } => {
                let _ = write!(text, "{source}\n{request:?}");
            }
            other => {
                let _ = write!(text, "{other:?}");
            }
        }
        let _ = writeln!(text, "\n{:?}", step.expect);
    }
    text
}

/// The function that begins with the first of these lines: it ends with a brace at the same indentation.
fn function(lines: &[&str]) -> String {
    block(lines, "}")
}

/// What begins with the first of these lines, and ends with this at the same indentation.
fn block(lines: &[&str], end: &str) -> String {
    let indent = lines[0].len() - lines[0].trim_start().len();
    let end = format!("{}{end}", " ".repeat(indent));
    let count = lines.iter().position(|line| *line == end).unwrap_or(0);
    lines[..=count].join("\n")
}

#[cfg(test)]
mod tests {
    use std::fs;

    use glovebox::{Language, Policy};

    use super::{Claims, Scenarios};
    use crate::{Action, Case, Request};

    const LIST: &str = "[held]\na: One\n    shows: one == 1\n[differs] It is two.\na: Two\n[none] Why not.\nb: Three\n";
    const TESTS: &str =
        "// scenario: a: One\n// scenario: a: Two\n/// Text.\n#[test]\nfn both() {\n    assert!(one == 1);\n}\n";

    fn claims(text: &str) -> Result<Claims, String> {
        let mut claims = Claims::default();
        claims.add_text(text, "tests/x.rs").map(|()| claims)
    }

    fn list(text: &str) -> Scenarios {
        Scenarios::parse(text).unwrap()
    }

    #[test]
    fn a_list_has_each_once_below_a_heading_with_a_sentence_where_it_is_not_held() {
        let wrong = [
            "a: One\n",
            "[held]\na: One\na: One\n",
            "[held]\nOne\n",
            "[held] Why.\na: One\n",
            "[differs]\na: One\n",
            "[none]\na: One\n",
            "[in scope]\na: One\n",
            "[held]\n    why: x\na: One\n",
            "[held]\na: One\n    because: x\n",
            "[none] Why.\na: One\n    shows: x\n",
        ];
        for wrong in wrong {
            Scenarios::parse(wrong).unwrap_err();
        }
        Scenarios::parse(&format!("{LIST}[held]\nb: Three\n")).unwrap_err();
        assert_eq!(list(LIST).counts().into_iter().collect::<Vec<_>>(), [("a", 2), ("b", 1)]);
        list("[differs]\na: One\n    why: Its own.\n");
    }

    #[test]
    fn each_that_is_there_is_claimed_and_nothing_else_is() {
        let list = list(LIST);
        assert_eq!(list.problems(&claims(TESTS).unwrap()), Vec::<String>::new());
        let removed = TESTS.replace("// scenario: a: Two\n", "");
        let problems = list.problems(&claims(&removed).unwrap());
        assert_eq!(problems, ["differs, and nothing shows it in javascript: `a: Two`"]);
        let misspelt = TESTS.replace("Two", "Tow");
        assert_eq!(list.problems(&claims(&misspelt).unwrap()).len(), 2);
        let outside = format!("{TESTS}// scenario: b: Three\n#[test]\nfn three() {{}}\n");
        assert_eq!(list.problems(&claims(&outside).unwrap()).len(), 1);
    }

    #[test]
    fn tests_in_typescript_claim_too() {
        let mut claims = Claims::default();
        let text = "// scenario: a: One\n// scenario: a: Two\nof('both', async () => {\n  one == 1\n});\n";
        claims.add_typescript(text, "tests/x.ts").unwrap();
        assert_eq!(list(LIST).problems(&claims), Vec::<String>::new());
        claims.add_typescript("// scenario: a: One\nconst x = 1;\n", "tests/x.ts").unwrap_err();
        claims.add_typescript("// scenario: a: One\n", "tests/x.ts").unwrap_err();
    }

    #[test]
    fn a_test_that_lost_what_it_shows_is_found() {
        let lost = TESTS.replace("one == 1", "true").replace("Text", "one == 1");
        let problems = list(LIST).problems(&claims(&lost).unwrap());
        assert!(problems.len() == 1 && problems[0].contains("is to show `one == 1`"), "{problems:?}");
    }

    #[test]
    fn a_case_shows_what_it_does_in_the_language_of_the_specification() {
        let case = |language, source: &str| {
            let run = Action::Run { source: source.to_owned(), request: Request::default() };
            let mut case = Case::of_steps("case", language, Policy::default(), vec![("main", run)]);
            case.scenarios = vec!["python-runtime: One".to_owned()];
            case
        };
        let list = list("[held]\npython-runtime: One\n    shows: print(1)\n");
        let problems = |case: &Case| {
            let mut claims = Claims::default();
            claims.add_case(case);
            list.problems(&claims).len()
        };
        assert_eq!(problems(&case(Language::Python, "print(1)")), 0);
        assert_eq!(problems(&case(Language::Python, "print(2)")), 1);
        assert_eq!(problems(&case(Language::JavaScript, "print(1)")), 1);
    }

    #[test]
    fn only_tests_that_run_claim() {
        claims("// scenario: a: One\nfn helper() {}\n").unwrap_err();
        claims("// scenario: a: One\nconst X: u8 = 1;\n").unwrap_err();
        claims("// scenario: a: One\n").unwrap_err();
        claims("// scenario: a: One\n// scenario: a: One\n#[test]\nfn twice() {}\n").unwrap_err();
        claims("// scenario: a: One\n#[test]\n#[ignore = \"slow\"]\nfn never() {}\n").unwrap_err();
        claims("// scenario: a: One\nfn trial() {}\nTrial::test(\"trial\", trial);\n").unwrap();
    }

    #[test]
    fn a_file_that_no_program_has_claims_nothing() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("main.rs"), "mod x;\n").unwrap();
        fs::write(dir.path().join("x.rs"), TESTS).unwrap();
        Claims::default().add_tests(dir.path(), "tests").unwrap();
        fs::write(dir.path().join("y.rs"), TESTS).unwrap();
        Claims::default().add_tests(dir.path(), "tests").unwrap_err();
    }

    #[test]
    fn the_page_has_a_line_for_each() {
        let page = list(LIST).page(&claims(TESTS).unwrap());
        let link = "[`tests/x.rs::both`](../tests/x.rs)";
        assert!(page.contains("1 are *held*, 1 *differ*, of 1 there is *none*"), "{page}");
        let rows = format!("## a\n\n| scenario | | by, or why |\n|---|---|---|\n| One | held | {link} |\n");
        assert!(page.contains(&format!("{rows}| Two | differs | It is two. {link} |\n")), "{page}");
        assert!(
            page.ends_with("## b\n\n| scenario | | by, or why |\n|---|---|---|\n| Three | none | Why not. |\n"),
            "{page}"
        );
    }
}
