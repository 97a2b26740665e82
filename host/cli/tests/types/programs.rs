//! Tests that type checks accept correct programs: the conformance cases and the examples.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use serde_json::Value;

use super::validate;
use crate::support::text;

/// Minimum number of programs that the test must find.
const MIN_PROGRAMS: usize = 200;

/// The share of the programs with false alarms must not exceed this number, in percent.
const MAX_FALSE_ALARM_PERCENT: usize = 1;

/// Programs with an error on purpose.
const WITH_ERRORS: [&str; 1] = [
    // An annotation, which is never evaluated, contains an undefined name.
    "future-annotations",
];

/// Correct programs that are reported.
const FALSE_ALARMS: [&str; 1] = [
    // A subclass of `multiprocessing.Process` reads the private attribute `_args`, which has no declared type.
    "pools-modules",
];

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Returns the files in a directory with this extension.
fn files(dir: &Path, extension: &str) -> Vec<PathBuf> {
    let paths = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    paths.filter(|path| path.extension().is_some_and(|found| found == extension)).collect()
}

fn stem(path: &Path) -> String {
    path.file_stem().unwrap().to_str().unwrap().to_owned()
}

/// Returns the Python script of a case that completes in a single step with the default runtime.
fn case_script(case: &str) -> Option<String> {
    let (front, body) = case.strip_prefix("+++\n")?.split_once("\n+++\n")?;
    let front: toml::Table = toml::from_str(front).unwrap();
    let runtime = front.get("runtime").and_then(toml::Value::as_str).unwrap_or("python-3.15");
    let outcome = front.get("expect").and_then(|expect| expect.get("outcome")).and_then(toml::Value::as_str);
    if !runtime.starts_with("python-3.15") || outcome != Some("completed") {
        return None;
    }
    let mut lines = body.lines();
    let start = lines.find(|line| line.starts_with("```") && line.split(' ').nth(1) == Some("script.py"))?;
    let fence: String = start.chars().take_while(|c| *c == '`').collect();
    let is_end = |line: &str| line.starts_with(&fence) && line.chars().all(|c| c == '`');
    Some(lines.take_while(|line| !is_end(line)).flat_map(|line| [line, "\n"]).collect())
}

/// Returns the source of each program by its name.
fn programs() -> BTreeMap<String, String> {
    let read = |path: &Path| fs::read_to_string(path).unwrap();
    let mut programs = BTreeMap::new();
    for case in files(&repository().join("tests/cases"), "md") {
        if let Some(script) = case_script(&read(&case)) {
            programs.insert(stem(&case), script);
        }
    }
    for example in fs::read_dir(repository().join("docs/examples")).unwrap() {
        let example = example.unwrap().path();
        if example.is_dir() {
            let scripts = files(&example, "py").into_iter();
            programs.extend(scripts.map(|script| (format!("{}-{}", stem(&example), stem(&script)), read(&script))));
        }
    }
    programs
}

#[test]
#[ignore = "downloads the type checker; `.ci/full` runs it"]
fn correct_programs_are_accepted() {
    let (dir, programs) = (tempfile::tempdir().unwrap(), programs());
    assert!(programs.len() >= MIN_PROGRAMS, "{}", programs.len());
    let mut args = vec!["--json".to_owned()];
    for (name, source) in &programs {
        let file = dir.path().join(format!("{name}.py"));
        fs::write(&file, source).unwrap();
        args.push(file.to_str().unwrap().to_owned());
    }
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let output = validate(&args);
    let reports: Vec<Value> = text(&output.stdout).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(reports.len(), programs.len(), "{}", text(&output.stderr));
    let reported = reports.iter().filter(|report| report["valid"] != true);
    let reported: BTreeMap<String, &Value> =
        reported.map(|report| (stem(Path::new(report["file"].as_str().unwrap())), &report["diagnostics"])).collect();
    println!("{} of {} programs are reported: {reported:#?}", reported.len(), programs.len());
    let mut expected: Vec<&str> = WITH_ERRORS.into_iter().chain(FALSE_ALARMS).collect();
    expected.sort_unstable();
    assert!(reported.keys().eq(expected.iter()), "{:?}", reported.keys());
    let alarms = reported.keys().filter(|name| FALSE_ALARMS.contains(&name.as_str())).count();
    assert!(alarms * 100 <= programs.len() * MAX_FALSE_ALARM_PERCENT, "{alarms} of {}", programs.len());
}
