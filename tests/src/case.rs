//! Conformance cases: data on disk, the same for every backend.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

use glovebox::{Language, Policy};
use serde::Deserialize;
use serde_json::Value;

use crate::{
    Expect, Request,
    step::{Action, CaseTool, Step, StepFile},
};

/// One case in one language.
#[derive(Clone, Debug)]
pub struct Case {
    /// The directory's name.
    pub name: String,
    /// The language of its scripts.
    pub language: Language,
    /// Whether its steps run one after the other in one session; otherwise each gets a fresh interpreter.
    pub in_session: bool,
    /// Whether a step in a fresh interpreter gets the files of the previous step.
    pub carry: bool,
    /// The value of `context` in its first session.
    pub context: Option<Value>,
    /// The tools its scripts may call, by name.
    pub tools: BTreeMap<String, CaseTool>,
    /// Whether a golden holds its fuel.
    pub golden: bool,
    /// Whether it is one of the few that run on every backend at every push.
    pub smoke: bool,
    /// Whether it needs the Python packages, which providers do not contain.
    pub packages: bool,
    /// The runtime that it needs: one of this name, or with a name that goes on after it and a hyphen.
    pub runtime: Option<String>,
    /// Its policy.
    pub policy: Policy,
    /// Files in the workspace before each step, by path relative to `/app`.
    pub files: BTreeMap<String, Vec<u8>>,
    /// Its steps, in order.
    pub steps: Vec<Step>,
}

impl Case {
    /// Scripts that are not conformance cases: one after the other, each in the session named beside it, where only
    /// `main` exists until a step forks it; a single script runs in a fresh interpreter.
    #[must_use]
    pub fn of_steps(name: &str, language: Language, policy: Policy, steps: Vec<(&str, Action)>) -> Self {
        let step = |(session, action): (&str, Action)| Step {
            name: "script".into(),
            session: session.to_owned(),
            action,
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

    /// The case as it is on a runtime; none if it needs another one.
    #[must_use]
    pub fn on_runtime(&self, runtime: &str) -> Option<Self> {
        let is_of =
            |name: &str| runtime.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'));
        if self.language.name() != runtime_language(runtime) || !self.runtime.as_deref().is_none_or(is_of) {
            return None;
        }
        let mut case = self.clone();
        for step in &mut case.steps {
            // The longest name says most about it.
            if let Some((_, expect)) = step.expect_on.iter().rfind(|(name, _)| is_of(name)) {
                step.expect = expect.clone();
            }
        }
        Some(case)
    }
}

/// Runtimes are called after their language.
fn runtime_language(runtime: &str) -> &str {
    runtime.split('-').next().unwrap_or(runtime)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CaseFile {
    /// What the case shows, for people.
    #[serde(default)]
    #[expect(dead_code, reason = "for people; read so that it is no unknown key")]
    about: Option<String>,
    #[serde(default)]
    in_session: bool,
    #[serde(default)]
    carry: bool,
    /// JSON text: TOML has no null.
    context: Option<String>,
    #[serde(default)]
    tools: BTreeMap<String, CaseTool>,
    #[serde(default)]
    golden: bool,
    #[serde(default)]
    smoke: bool,
    #[serde(default)]
    packages: bool,
    runtime: Option<String>,
    #[serde(default)]
    policy: toml::Table,
    #[serde(default)]
    request: Request,
    expect: Option<toml::Table>,
    #[serde(default)]
    step: Vec<StepFile>,
}

/// The directory that holds the cases.
#[must_use]
pub fn cases_dir() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("cases")
}

/// Reads the cases that every runtime of their language runs, in every language for which they have scripts.
///
/// # Errors
/// A mistake in any case, with the file's name.
pub fn load_cases(dir: &Path) -> Result<Vec<Case>, String> {
    Ok(load_all_cases(dir)?.into_iter().filter(|case| case.runtime.is_none()).collect())
}

/// Reads every case, those that need a certain runtime among them.
///
/// # Errors
/// As [`load_cases`].
pub fn load_all_cases(dir: &Path) -> Result<Vec<Case>, String> {
    let mut cases = Vec::new();
    for path in sorted(dir)? {
        if path.file_name().is_some_and(|name| name == "README.md") {
            continue;
        }
        if !path.is_dir() {
            return Err(format!("`{}` is no case's directory; no suite claims it", path.display()));
        }
        load_case(&path, &mut cases).map_err(|error| format!("{}: {error}", path.display()))?;
    }
    Ok(cases)
}

fn load_case(dir: &Path, cases: &mut Vec<Case>) -> Result<(), String> {
    let name = dir.file_name().and_then(|name| name.to_str()).ok_or("the directory's name is not UTF-8")?.to_owned();
    let text = fs::read_to_string(dir.join("case.toml")).map_err(|error| format!("`case.toml`: {error}"))?;
    let file: CaseFile = toml::from_str(&text).map_err(|error| error.to_string())?;

    if ["workspace", "mounts", "network"].iter().any(|key| file.policy.contains_key(*key)) {
        return Err(
            "a case names nothing of the host: `workspace`, `mounts` and `network` have tests of their own".into()
        );
    }
    let policy_text = toml::to_string(&file.policy).map_err(|error| error.to_string())?;
    let policy = Policy::from_toml(&policy_text).map_err(|error| error.to_string())?;

    let steps = match (file.expect, file.step) {
        (Some(expect), steps) if steps.is_empty() => {
            vec![StepFile::single(file.request, expect)]
        }
        (None, steps) if !steps.is_empty() => steps,
        _ => return Err("give either one `[expect]` (for `script.*`) or `[[step]]` tables".into()),
    };

    let context = match &file.context {
        Some(_) if !file.in_session => return Err("only a case with `in_session = true` has a `context`".into()),
        Some(text) => Some(serde_json::from_str(text).map_err(|error| format!("`context` is no JSON text: {error}"))?),
        None => None,
    };

    let requests = || steps.iter().map(|step| &step.request);
    if file.in_session && requests().any(|request| request.context.is_some()) {
        return Err("a step of a session has no `context` of its own".into());
    }
    if file.in_session && dir.join("files").exists() {
        return Err("a session's files are written by a step".into());
    }

    if file.carry && (file.in_session || steps.len() < 2) {
        return Err("`carry` is for several steps, each in an interpreter of its own".into());
    }

    let mut unclaimed = BTreeSet::new();
    let mut languages = BTreeSet::new();
    for language in Language::ALL {
        if steps.iter().any(|step| step.inline(language).is_some()) {
            languages.insert(language);
        }
    }
    let mut files = BTreeMap::new();
    for path in sorted(dir)? {
        let entry = path.file_name().and_then(|name| name.to_str()).ok_or("a file's name is not UTF-8")?;
        match (entry, path.extension().and_then(|extension| extension.to_str()).and_then(Language::from_extension)) {
            ("case.toml", _) => {}
            ("files", _) => read_tree(&path, "", &mut files)?,
            (_, Some(language)) => {
                languages.insert(language);
                unclaimed.insert(entry.to_owned());
            }
            _ => return Err(format!("`{entry}` belongs to nothing")),
        }
    }
    if languages.is_empty() {
        return Err("there is no script".into());
    }
    for language in languages {
        let mut case = Case {
            name: name.clone(),
            language,
            in_session: file.in_session,
            carry: file.carry,
            context: context.clone(),
            tools: file.tools.clone(),
            golden: file.golden,
            smoke: file.smoke,
            packages: file.packages,
            runtime: file.runtime.clone(),
            policy: policy.clone(),
            files: files.clone(),
            steps: Vec::new(),
        };
        for (number, step) in steps.iter().enumerate() {
            let wrong = |error: String| format!("step {number} ({language}): {error}");
            // A TypeScript file runs under its name, which identifies the language.
            let mut named = None;
            let source = match (&step.script, step.inline(language)) {
                (Some(_), Some(_)) => return Err(wrong("give either a script's file or its source".into())),
                (Some(script), None) => {
                    let script = format!("{script}.{}", extension(language));
                    let typed = script.replace(".js", ".ts");
                    let script = if typed != script && unclaimed.contains(&typed) {
                        named = Some(typed.clone());
                        typed
                    } else {
                        script
                    };
                    unclaimed.remove(&script);
                    Some(fs::read_to_string(dir.join(&script)).map_err(|error| wrong(format!("`{script}`: {error}")))?)
                }
                (None, Some(source)) => Some(source.clone()),
                (None, None) if step.runs() => return Err(wrong("there is no source in this language".into())),
                (None, None) => None,
            };
            let (expect, expect_on) = match &step.expect {
                Some(expect) => for_language(expect, language, step.runs()).map_err(wrong)?,
                None if step.runs() => return Err(wrong("there is no `expect`".into())),
                None => (Expect::default(), BTreeMap::new()),
            };
            let mut step = step.step(number, source, expect, file.in_session).map_err(wrong)?;
            step.expect_on = expect_on;
            if let Action::Run { request, .. } = &mut step.action {
                request.name = request.name.take().or(named);
            }
            case.steps.push(step);
        }
        cases.push(case);
    }
    match unclaimed.first() {
        Some(script) => Err(format!("no step claims `{script}`")),
        None => Ok(()),
    }
}

/// The expectations for one language: the general ones, overridden key by key by its own table; and those for runtimes that differ,
/// overridden further by their tables, `expect.python-3.15`.
fn for_language(
    general: &toml::Table,
    language: Language,
    runs: bool,
) -> Result<(Expect, BTreeMap<String, Expect>), String> {
    let mut common = general.clone();
    let mut tables = BTreeMap::new();
    for name in general.keys().filter(|key| Language::ALL.iter().any(|each| each.name() == runtime_language(key))) {
        let Some(toml::Value::Table(table)) = common.remove(name) else {
            return Err(format!("`expect.{name}` is no table"));
        };
        // The other language's table is read too, so that a mistake in it cannot hide.
        Expect::deserialize(toml::Value::Table(table.clone())).map_err(|error| format!("expect.{name}: {error}"))?;
        tables.insert(name.as_str(), table);
    }
    if let Some(own) = tables.remove(language.name()) {
        common.extend(own);
    }
    let mut on = BTreeMap::new();
    for (name, table) in tables.into_iter().filter(|(name, _)| runtime_language(name) == language.name()) {
        // What says how it ends says all about it.
        let mut merged =
            if ANSWERS.iter().any(|key| table.contains_key(*key)) { toml::Table::new() } else { common.clone() };
        merged.extend(table);
        on.insert(name.to_owned(), checked(merged, runs)?);
    }
    Ok((checked(common, runs)?, on))
}

/// Exactly one of them says how an execution ends.
const ANSWERS: [&str; 3] = ["outcome", "error", "diagnostics"];

fn checked(table: toml::Table, runs: bool) -> Result<Expect, String> {
    let given = ANSWERS.iter().filter(|key| table.contains_key(**key)).count();
    let expect = Expect::deserialize(toml::Value::Table(table)).map_err(|error| error.to_string())?;
    if given > 1 || (runs && given == 0) {
        return Err("expect exactly one of `outcome`, `error` and `diagnostics`".into());
    }
    Ok(expect)
}

fn extension(language: Language) -> &'static str {
    match language {
        Language::Python => "py",
        Language::JavaScript => "js",
    }
}

fn read_tree(dir: &Path, prefix: &str, files: &mut BTreeMap<String, Vec<u8>>) -> Result<(), String> {
    for path in sorted(dir)? {
        let name = path.file_name().and_then(|name| name.to_str()).ok_or("a file's name is not UTF-8")?;
        let name = if prefix.is_empty() { name.to_owned() } else { format!("{prefix}/{name}") };
        if path.is_dir() {
            read_tree(&path, &name, files)?;
        } else {
            files.insert(name, fs::read(&path).map_err(|error| format!("`{}`: {error}", path.display()))?);
        }
    }
    Ok(())
}

fn sorted(dir: &Path) -> Result<Vec<PathBuf>, String> {
    let wrong = |error: std::io::Error| format!("`{}`: {error}", dir.display());
    let mut paths = Vec::new();
    for entry in fs::read_dir(dir).map_err(wrong)? {
        paths.push(entry.map_err(wrong)?.path());
    }
    paths.sort();
    Ok(paths)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::{Case, cases_dir, load_cases};
    use crate::{Action, Operation};

    /// Every kind of step, and every kind of outcome.
    #[test]
    fn the_smoke_set_touches_all_that_the_cases_touch() {
        let (smoke, others): (Vec<Case>, Vec<Case>) =
            load_cases(&cases_dir()).unwrap().into_iter().partition(|case| case.smoke);
        let touched = touched_by(&smoke);
        let missing: Vec<_> = touched_by(&others).difference(&touched).cloned().collect();
        assert_eq!(missing, Vec::<String>::new());
        let names: BTreeSet<_> = smoke.iter().map(|case| &case.name).collect();
        assert!((30..=60).contains(&names.len()), "{} cases are no smoke set", names.len());
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
