//! Conformance cases: the files in `cases`, which every backend runs.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs, io,
    path::{Path, PathBuf},
};

use glovebox::{Language, Policy};
use serde::Deserialize;
use serde_json::Value;

use crate::{
    Expect,
    case_file::{Block, CaseError, CaseFile, FrontMatter},
    step::{Action, CaseTool, Step, StepFile},
};

/// The prefix of a block name for workspace files.
const FILES: &str = "files/";

/// The shortest timeout that suits a slow machine.
const LONG_TIMEOUT_MS: u64 = 10_000;

/// A conformance case, in one language.
#[derive(Clone, Debug)]
pub struct Case {
    /// The file name without `.md`.
    pub name: String,
    /// The language of the scripts.
    pub language: Language,
    /// `true` if all steps run in one session. Otherwise each step runs in a fresh interpreter.
    pub in_session: bool,
    /// `true` if each step receives the files that the previous step left. Not supported with `in_session`.
    pub carry: bool,
    /// The value of `context` when the first session opens.
    pub context: Option<Value>,
    /// The tools that the scripts may call, by name.
    pub tools: BTreeMap<String, CaseTool>,
    /// `true` if the fuel use is compared with a golden file.
    pub golden: bool,
    /// `true` if CI runs the case on every backend at every push.
    pub smoke: bool,
    /// `true` if the case requires the bundled packages, or Node modules under computed names. Providers contain
    /// neither.
    pub packages: bool,
    /// The required runtime, if any. `python-3.15` includes variants such as `python-3.15-data`.
    pub runtime: Option<String>,
    /// The policy that the scripts run with.
    pub policy: Policy,
    /// Files in the workspace before each step, by path relative to `/app`.
    pub files: BTreeMap<String, Vec<u8>>,
    /// The steps, in order.
    pub steps: Vec<Step>,
}

impl Case {
    /// Creates a case from steps that are not in a file. Each step is given with the name of its session. Only `main`
    /// exists until a step forks it. A case with a single step runs it in a fresh interpreter.
    pub fn of_steps(name: &str, language: Language, policy: Policy, steps: Vec<(&str, Action)>) -> Self {
        let step = |(session, action): (&str, Action)| Step {
            name: "script".into(),
            session: session.to_owned(),
            action,
            concurrent: false,
            expect: Expect::default(),
            expect_on: BTreeMap::new(),
        };
        Self {
            name: name.to_owned(),
            language,
            in_session: steps.len() > 1,
            carry: false,
            context: None,
            tools: BTreeMap::new(),
            golden: false,
            smoke: false,
            packages: false,
            runtime: None,
            policy,
            files: BTreeMap::new(),
            steps: steps.into_iter().map(step).collect(),
        }
    }

    /// Multiplies the timeout, its reserve, the delays of tools and the expected durations by `factor`. Returns `None`
    /// if the timeout is already long enough for a slow machine.
    pub fn with_longer_times(&self, factor: u32) -> Option<Self> {
        if self.policy.limits.timeout_ms >= LONG_TIMEOUT_MS {
            return None;
        }
        let mut case = self.clone();
        let limits = &mut case.policy.limits;
        limits.timeout_ms *= u64::from(factor);
        limits.timeout_reserve_ms *= u64::from(factor);
        for tool in case.tools.values_mut() {
            tool.delay_ms *= u64::from(factor);
        }
        for step in &mut case.steps {
            step.expect.lengthen(factor);
            for expect in step.expect_on.values_mut() {
                expect.lengthen(factor);
            }
        }
        Some(case)
    }

    /// Returns the case with the expectations for a runtime, or `None` if the runtime cannot run the case.
    pub fn on_runtime(&self, runtime: &str) -> Option<Self> {
        let is_of = |name: &str| is_variant_of(runtime, name);
        if self.language.name() != runtime_language(runtime) || !self.runtime.as_deref().is_none_or(is_of) {
            return None;
        }
        let mut case = self.clone();
        for step in &mut case.steps {
            // The longest name is the most specific.
            if let Some((_, expect)) = step.expect_on.iter().rfind(|(name, _)| is_of(name)) {
                step.expect = expect.clone();
            }
        }
        Some(case)
    }
}

/// Returns `true` if a runtime has this name or is a variant of it: `python-3.15-data` is a variant of `python-3.15`.
pub fn is_variant_of(runtime: &str, name: &str) -> bool {
    runtime.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
}

/// Returns the language at the start of a runtime's name.
fn runtime_language(runtime: &str) -> &str {
    runtime.split('-').next().unwrap_or(runtime)
}

/// Returns the directory of the cases.
pub fn cases_dir() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("cases")
}

/// Reads the cases that do not require a specific runtime. Returns one [`Case`] for each language of a file's scripts.
///
/// # Errors
/// Fails if a case is invalid. The error names the case's file.
pub fn load_cases(dir: &Path) -> Result<Vec<Case>, String> {
    Ok(load_all_cases(dir)?.into_iter().filter(|case| case.runtime.is_none()).collect())
}

/// Reads every case, including those that need a specific runtime.
///
/// # Errors
/// Same as [`load_cases`].
pub fn load_all_cases(dir: &Path) -> Result<Vec<Case>, String> {
    let wrong = |error: io::Error| format!("{}: {error}", dir.display());
    // Sort by name: the extension would change the order of paths.
    let mut paths = BTreeMap::new();
    for entry in fs::read_dir(dir).map_err(wrong)? {
        let path = entry.map_err(wrong)?.path();
        let name = path.file_name().and_then(|name| name.to_str()).and_then(|name| name.strip_suffix(".md"));
        let name = name.ok_or_else(|| format!("{}: not a case: expected `<name>.md`", path.display()))?.to_owned();
        if name != "README" {
            paths.insert(name, path);
        }
    }
    let mut cases = Vec::new();
    for (name, path) in paths {
        let text = fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        cases.extend(parse_case(&name, &text).map_err(|error| error.in_file(&path))?);
    }
    Ok(cases)
}

/// Parses a case file. Returns one [`Case`] for each language of its scripts.
fn parse_case(name: &str, text: &str) -> Result<Vec<Case>, CaseError> {
    let CaseFile { front_matter, blocks } = CaseFile::parse(text)?;
    let mut front: FrontMatter = toml::from_str(front_matter).map_err(|error| error.to_string())?;
    let (policy, context, steps) = (front.policy()?, front.context()?, front.take_steps()?);

    let mut files = BTreeMap::new();
    let mut scripts = BTreeMap::new();
    let mut languages = BTreeSet::new();
    for (&name, &block) in &blocks {
        if let Some(path) = name.strip_prefix(FILES) {
            files.insert(path.to_owned(), block.content.as_bytes().to_vec());
        } else if let Some(language) = script_language(name) {
            scripts.insert(name, block);
            languages.insert(language);
        } else {
            return Err(CaseError::at(
                block.line,
                format!("block `{name}` is not a script; name workspace files `{FILES}PATH`"),
            ));
        }
    }
    let is_inline = |language: &Language| steps.iter().any(|step| step.inline(*language).is_some());
    languages.extend(Language::ALL.into_iter().filter(is_inline));
    if languages.is_empty() {
        return Err("the case has no script".into());
    }

    if front.in_session && steps.iter().any(|step| step.request.context.is_some()) {
        return Err("`request.context` is not supported in a session: use `context`".into());
    }
    if front.in_session && !files.is_empty() {
        return Err("files are not supported in a session: use a step with `write`".into());
    }
    if front.carry && (front.in_session || steps.len() < 2) {
        return Err("`carry` requires several steps and is not supported with `in_session`".into());
    }

    let mut cases = Vec::new();
    let mut claimed = BTreeSet::new();
    for language in languages {
        let mut case = Case {
            name: name.to_owned(),
            language,
            in_session: front.in_session,
            carry: front.carry,
            context: context.clone(),
            tools: front.tools.clone(),
            golden: front.golden,
            smoke: front.smoke,
            packages: front.packages,
            runtime: front.runtime.clone(),
            policy: policy.clone(),
            files: files.clone(),
            steps: Vec::new(),
        };
        for (number, step) in steps.iter().enumerate() {
            let wrong = |error: String| format!("step {number} ({language}): {error}");
            let (source, script) = step_source(step, language, &scripts).map_err(wrong)?;
            claimed.extend(script);
            let (expect, expect_on) = match &step.expect {
                Some(expect) => for_language(expect, language, step.runs()).map_err(wrong)?,
                None if step.runs() => return Err(wrong("missing `expect`".into()).into()),
                None => (Expect::default(), BTreeMap::new()),
            };
            let mut step = step.step(number, source, expect, front.in_session).map_err(wrong)?;
            step.expect_on = expect_on;
            if let Action::Run { request, .. } = &mut step.action
                && request.name.is_none()
            {
                // A TypeScript script is recognized by its file name.
                request.name = script.filter(|name| name.ends_with(".ts")).map(str::to_owned);
            }
            case.steps.push(step);
        }
        cases.push(case);
    }
    match scripts.iter().find(|(name, _)| !claimed.contains(*name)) {
        Some((name, block)) => Err(CaseError::at(block.line, format!("no step runs `{name}`"))),
        None => Ok(cases),
    }
}

/// Returns a script block's language, or `None` if the block is not a script.
fn script_language(name: &str) -> Option<Language> {
    let (stem, extension) = name.rsplit_once('.')?;
    if stem.contains('/') { None } else { Language::from_extension(extension) }
}

/// Returns a step's source in one language, and the name of the block that contains it.
fn step_source<'a>(
    step: &StepFile,
    language: Language,
    scripts: &BTreeMap<&'a str, Block<'a>>,
) -> Result<(Option<String>, Option<&'a str>), String> {
    match (&step.script, step.inline(language)) {
        (Some(_), Some(_)) => Err(format!("both `script` and `{language}`: remove one of them")),
        (Some(script), None) => {
            let names = extensions(language).iter().map(|extension| format!("{script}.{extension}"));
            let mut found = names.filter_map(|name| scripts.get_key_value(name.as_str()));
            let (name, block) = found.next().ok_or_else(|| format!("no block for the script `{script}`"))?;
            Ok((Some(block.content.to_owned()), Some(name)))
        }
        (None, Some(source)) => Ok((Some(source.clone()), None)),
        (None, None) if step.runs() => Err("the step has no source in this language".into()),
        (None, None) => Ok((None, None)),
    }
}

/// Returns the expectations for one language, and the expectations for runtimes that have their own table, by runtime
/// name. Keys in the language's table override the general ones; keys in `expect.python-3.15` override both.
fn for_language(
    general: &toml::Table,
    language: Language,
    runs: bool,
) -> Result<(Expect, BTreeMap<String, Expect>), String> {
    let mut common = general.clone();
    let mut tables = BTreeMap::new();
    for name in general.keys().filter(|key| Language::ALL.iter().any(|each| each.name() == runtime_language(key))) {
        let Some(toml::Value::Table(table)) = common.remove(name) else {
            return Err(format!("`expect.{name}` is not a table"));
        };
        // Tables for the other language are validated too.
        Expect::deserialize(toml::Value::Table(table.clone())).map_err(|error| format!("expect.{name}: {error}"))?;
        tables.insert(name.as_str(), table);
    }
    if let Some(own) = tables.remove(language.name()) {
        common.extend(own);
    }
    let mut on = BTreeMap::new();
    for (name, table) in tables.into_iter().filter(|(name, _)| runtime_language(name) == language.name()) {
        // A runtime's table with an outcome replaces the other tables.
        let mut merged =
            if ANSWERS.iter().any(|key| table.contains_key(*key)) { toml::Table::new() } else { common.clone() };
        merged.extend(table);
        on.insert(name.to_owned(), checked(merged, runs)?);
    }
    Ok((checked(common, runs)?, on))
}

/// Mutually exclusive keys. The expectations for a script contain exactly one of them. The expectations for a session
/// operation contain at most one.
const ANSWERS: [&str; 3] = ["outcome", "error", "diagnostics"];

fn checked(table: toml::Table, runs: bool) -> Result<Expect, String> {
    let given = ANSWERS.iter().filter(|key| table.contains_key(**key)).count();
    let expect = Expect::deserialize(toml::Value::Table(table)).map_err(|error| error.to_string())?;
    if given > 1 || (runs && given == 0) {
        return Err("expected exactly one of `outcome`, `error` and `diagnostics`".into());
    }
    Ok(expect)
}

/// Returns the file extensions of scripts in a language.
fn extensions(language: Language) -> &'static [&'static str] {
    match language {
        Language::Python => &["py"],
        Language::JavaScript => &["js", "ts"],
    }
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, fs, path::Path};

    use super::{Case, cases_dir, load_all_cases, load_cases, parse_case};
    use crate::{Action, Operation};

    /// Parses a case from its front matter, which must end with a newline, and its blocks.
    fn parse(front_matter: &str, blocks: &str) -> Result<Vec<Case>, String> {
        parse_case("x", &format!("+++\n{front_matter}+++\n{blocks}")).map_err(|error| error.in_file(Path::new("x.md")))
    }

    /// Returns the sources of a case's steps, with their file names.
    fn sources(case: &Case) -> Vec<(&str, Option<&str>)> {
        let runs = case.steps.iter().map(|step| match &step.action {
            Action::Run { source, request } => (source.as_str(), request.name.as_deref()),
            other => panic!("{other:?}"),
        });
        runs.collect()
    }

    const EXPECT: &str = "expect.outcome = \"completed\"\n";
    const SCRIPT: &str = "```python script.py\n1\n```\n";

    #[test]
    fn each_language_with_a_script_becomes_a_case() {
        let blocks = format!("{SCRIPT}```javascript script.js\n2\n```\n```text files/a/b.txt no-newline\nx\n```\n");
        let cases = parse(EXPECT, &blocks).unwrap();
        let [python, javascript] = cases.as_slice() else { panic!("{cases:?}") };
        assert_eq!((python.language.name(), javascript.language.name()), ("python", "javascript"));
        assert_eq!((sources(python), sources(javascript)), (vec![("1\n", None)], vec![("2\n", None)]));
        assert_eq!(python.files, [("a/b.txt".to_owned(), b"x".to_vec())].into());
        assert_eq!(python.files, javascript.files);
        let inline = "[[step]]\npython = '1'\nexpect.outcome = 'completed'\n";
        assert_eq!(sources(&parse(inline, "").unwrap()[0]), [("1", None)]);
    }

    #[test]
    fn several_steps_may_run_one_script() {
        let step = "[[step]]\nscript = 'a'\nexpect.outcome = 'completed'\n";
        let cases = parse(&[step, step].concat(), "```typescript a.ts\n1\n```\n").unwrap();
        assert_eq!(sources(&cases[0]), [("1\n", Some("a.ts")); 2]);
    }

    #[test]
    fn unused_blocks_are_rejected() {
        let unused = "```python other.py\n```\n";
        assert_eq!(parse(EXPECT, &[SCRIPT, unused].concat()).unwrap_err(), "x.md:7: no step runs `other.py`");
        let both = "```javascript script.js\n```\n```typescript script.ts\n```\n";
        assert_eq!(parse(EXPECT, both).unwrap_err(), "x.md:6: no step runs `script.ts`");
        for name in ["script.txt", "script", "dir/script.py", "file/a.txt"] {
            let error = parse(EXPECT, &format!("{SCRIPT}```text {name}\n```\n")).unwrap_err();
            assert_eq!(error, format!("x.md:7: block `{name}` is not a script; name workspace files `files/PATH`"));
        }
    }

    #[test]
    fn step_without_a_script_is_rejected() {
        assert_eq!(parse(EXPECT, "").unwrap_err(), "x.md: the case has no script");
        let missing = "x.md: step 0 (python): no block for the script `script`";
        assert_eq!(parse(EXPECT, "```python a.py\n```\n").unwrap_err(), missing);
        let one_language = "[[step]]\npython = '1'\nexpect.outcome = 'completed'\n";
        let error = parse(one_language, "```javascript script.js\n```\n").unwrap_err();
        assert_eq!(error, "x.md: step 0 (javascript): the step has no source in this language");
    }

    #[test]
    fn files_in_a_session_case_are_rejected() {
        let error = parse(&format!("in_session = true\n{EXPECT}"), &format!("{SCRIPT}```text files/a\n```\n"));
        assert_eq!(error.unwrap_err(), "x.md: files are not supported in a session: use a step with `write`");
    }

    #[test]
    fn toml_errors_use_line_numbers_of_the_file() {
        let error = parse("\nunknown = 1\n", SCRIPT).unwrap_err();
        assert!(error.contains("line 3, column 1") && error.contains("unknown field `unknown`"), "{error}");
    }

    #[test]
    fn a_directory_holds_only_cases_and_the_readme() {
        let dir = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &[u8]| fs::write(dir.path().join(name), text).unwrap();
        let load = || load_all_cases(dir.path());
        let text = format!("+++\n{EXPECT}+++\n{SCRIPT}");
        write("README.md", b"# Cases\n");
        write("b.md", text.as_bytes());
        write("b-c.md", text.as_bytes());
        let names: Vec<String> = load().unwrap().into_iter().map(|case| case.name).collect();
        assert_eq!(names, ["b", "b-c"]);

        write("a.md", b"+++\n+++\n\xff");
        assert!(load().unwrap_err().contains("a.md: "));
        fs::remove_file(dir.path().join("a.md")).unwrap();
        fs::create_dir(dir.path().join("a")).unwrap();
        assert!(load().unwrap_err().ends_with("a: not a case: expected `<name>.md`"));
    }

    /// The smoke cases must include every kind of step and every kind of outcome.
    #[test]
    fn smoke_set_covers_all_features_of_the_cases() {
        let (smoke, others): (Vec<Case>, Vec<Case>) =
            load_cases(&cases_dir()).unwrap().into_iter().partition(|case| case.smoke);
        let touched = touched_by(&smoke);
        let missing: Vec<_> = touched_by(&others).difference(&touched).cloned().collect();
        assert_eq!(missing, Vec::<String>::new());
        let names: BTreeSet<_> = smoke.iter().map(|case| &case.name).collect();
        assert!((30..=60).contains(&names.len()), "{} cases in the smoke set", names.len());
    }

    fn touched_by(cases: &[Case]) -> BTreeSet<String> {
        let mut touched = BTreeSet::new();
        for case in cases {
            for step in &case.steps {
                let action = match &step.action {
                    Action::Run { request, .. } if request.operation == Operation::Validate => "validate",
                    Action::Run { .. } if !case.tools.is_empty() => "execute with tools",
                    Action::Run { .. } => "execute",
                    Action::Get { .. } => "get",
                    Action::Set { .. } => "set",
                    Action::Fork { .. } => "fork",
                    Action::Checkpoint { .. } => "checkpoint",
                    Action::Undo { to: Some(_) } => "undo to a checkpoint",
                    Action::Undo { to: None } => "undo",
                    Action::Hibernate { .. } => "hibernate",
                    Action::Resume { .. } => "resume",
                    Action::Write { .. } => "write",
                    Action::Delete { .. } => "delete",
                    Action::List { .. } => "list",
                };
                touched.insert(format!("{}: {action}", case.language));
                if let Some(outcome) = &step.expect.outcome {
                    touched.insert(format!("{}: {outcome}", case.language));
                }
            }
        }
        touched
    }
}
