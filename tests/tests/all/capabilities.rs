//! Runs the examples in `docs/python.md` and `docs/javascript.md`: the script in each table row must have the row's
//! outcome. `BLESS=1` writes the outcomes.
//!
//! Only tables with the headings `script` and `outcome` are read. In a table that also has `then`, the rows run in a
//! session, and `then` is the second script. In a cell, `<br>` separates the lines of a script and `, ` separates
//! scripts, all of which have the row's outcome. The outcome is the result of [`outcome_text`], or only its beginning
//! up to a colon: a type without its message.

use std::{collections::BTreeSet, fs, path::PathBuf};

use glovebox::{Execution, Language, Outcome, Policy, Sandbox, Tool, ToolError, guidance};
use glovebox_runtimes::PackageList;
use glovebox_tests::{Goldens, PORTABLE_PYTHON, engine, fixed, short};
use serde_json::json;

fn path(page: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../docs").join(page)
}

/// Returns the environment that the pages describe: a file, a tool, a fixed clock, and a low fuel limit, which ends
/// endless scripts quickly.
fn sandbox_of(runtime: &str) -> Sandbox {
    let mut policy = Policy::default();
    fixed(&mut policy);
    policy.limits.fuel = 1_000_000_000;
    let add = Tool::new("add", "Adds two integers.")
        .schema(json!({"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}, "required": ["a", "b"]}))
        .handler(|_, arguments| {
            let number = |name| arguments.get(name).and_then(serde_json::Value::as_i64).unwrap_or_default();
            let sum = number("a") + number("b");
            if sum < 0 { Err(ToolError::from("the sum is negative".to_owned())) } else { Ok(json!(sum)) }
        });
    Sandbox::builder(engine()).runtime(runtime).policy(policy).file("in.txt", "one\ntwo\n").tool(add).build().unwrap()
}

/// Formats an outcome as the pages show it.
fn outcome_text(execution: &Execution) -> String {
    let lines =
        |text: &str| text.trim_end().split('\n').map(|line| format!("`{line}`")).collect::<Vec<_>>().join("<br>");
    match &execution.outcome {
        Outcome::Completed if execution.stdout.text().is_empty() => "works".into(),
        Outcome::Completed => format!("prints {}", lines(&execution.stdout.text())),
        Outcome::Raised(raised) if raised.message.is_empty() => format!("raises `{}`", raised.type_name),
        Outcome::Raised(raised) => {
            format!("raises `{}`: {}", raised.type_name, raised.message.lines().next().unwrap_or_default())
        }
        Outcome::Exited { code } => format!("exits with `{code}`"),
        other => short(other),
    }
}

/// Splits a table line into its cells, with `|` unescaped. Returns `None` for other lines.
fn cells(line: &str) -> Option<Vec<String>> {
    let inside = line.strip_prefix("| ")?.strip_suffix('|')?;
    let escaped = inside.replace("\\|", "\0");
    Some(escaped.split('|').map(|cell| cell.trim().replace('\0', "|")).collect())
}

/// Splits a cell into the scripts that it contains.
fn scripts(cell: &str) -> Vec<String> {
    let separate = cell.trim_matches('`').split("`, `");
    separate.map(|script| script.split("`<br>`").collect::<Vec<_>>().join("\n")).collect()
}

/// A table row with its scripts and their outcome.
struct Row {
    line: usize,
    scripts: Vec<String>,
    then: Option<String>,
    outcome: String,
}

fn rows(page: &str) -> Vec<Row> {
    let mut rows = Vec::new();
    let mut head: Vec<String> = Vec::new();
    for (line, text) in page.lines().enumerate().filter(|(_, text)| !text.starts_with("|-")) {
        let Some(cells) = cells(text) else {
            head.clear();
            continue;
        };
        if head.is_empty() {
            head = cells;
            continue;
        }
        let cell = |name: &str| cells.get(head.iter().position(|each| each == name)?);
        if let (Some(script), Some(outcome)) = (cell("script"), cell("outcome")) {
            let then = cell("then").map(|cell| scripts(cell).concat());
            rows.push(Row { line, scripts: scripts(script), then, outcome: outcome.clone() });
        }
    }
    rows
}

/// Runs a row's script, and `then` in the same session if there is one. Returns the outcome.
fn outcome(sandbox: &Sandbox, script: &str, then: Option<&str>) -> String {
    let Some(then) = then else { return outcome_text(&sandbox.execute(script).unwrap()) };
    let session = sandbox.session().unwrap();
    session.execute(script).unwrap();
    outcome_text(&session.execute(then).unwrap())
}

/// Returns `true` if an outcome matches the outcome in a row.
fn outcome_matches(found: &str, row: &str) -> bool {
    found == row || found.split_once(": ").is_some_and(|(kind, _)| kind == row)
}

/// Checks a page's rows and returns the number of rows.
fn check(name: &str, sandbox: &Sandbox) -> usize {
    let held = fs::read_to_string(path(name)).unwrap();
    let mut page: Vec<String> = held.lines().map(str::to_owned).collect();
    let mut wrong = String::new();
    let rows = rows(&held);
    for row in &rows {
        for script in &row.scripts {
            let found = outcome(sandbox, script, row.then.as_deref());
            if !outcome_matches(&found, &row.outcome) {
                wrong += &format!("{name}:{}: `{script}`: {found}, instead of {}\n", row.line + 1, row.outcome);
                let cell = |outcome: &str| format!("| {} |", outcome.replace('|', "\\|"));
                if let Some(line) = page.get_mut(row.line) {
                    *line = line.replacen(&cell(&row.outcome), &cell(&found), 1);
                }
            }
        }
    }
    if Goldens::blessing() {
        fs::write(path(name), page.join("\n") + "\n").unwrap();
    } else {
        assert!(wrong.is_empty(), "run with BLESS=1 if the change is intended:\n{wrong}");
    }
    rows.len()
}

#[test]
fn python_capability_rows_hold() {
    assert!(check("python.md", &sandbox_of("python-3.15-data")) >= 90);
}

/// The header of the table of scripts whose outcome differs in Python 3.12.
const OTHERWISE: &str = "| script | in Python 3.12 |";

/// All rows also hold in the providers' Python version, except those in one table.
#[test]
fn python_capability_rows_hold_in_the_other_runtime() {
    let held = fs::read_to_string(path("python.md")).unwrap();
    let (before, rest) = held.split_once(&format!("{OTHERWISE}\n|---|---|\n")).unwrap();
    let (listed, after) = rest.split_at(rest.find("\n\n").map_or(rest.len(), |end| end + 1));
    let other = sandbox_of(PORTABLE_PYTHON);
    let mut found = String::new();
    for row in rows(before) {
        for script in &row.scripts {
            let outcome = outcome(&other, script, row.then.as_deref());
            if !outcome_matches(&outcome, &row.outcome) {
                let script = script.replace('\n', "`<br>`");
                found += &format!("| `{script}` | {outcome} |\n").replace("||", "\\|\\|");
            }
        }
    }
    if Goldens::blessing() {
        fs::write(path("python.md"), [before, OTHERWISE, "\n|---|---|\n", &found, after].concat()).unwrap();
    } else {
        assert_eq!(listed, found, "run with BLESS=1 if the change is intended");
    }
}

#[test]
fn javascript_capability_rows_hold() {
    assert!(check("javascript.md", &sandbox_of("javascript")) >= 50);
}

/// Returns the names imported in a page's rows, without submodules.
fn imported(page: &str) -> BTreeSet<String> {
    let rows = rows(&fs::read_to_string(path(page)).unwrap());
    let lines = rows.iter().flat_map(|row| &row.scripts).flat_map(|script| script.split(['\n', ';']));
    let names = lines.filter_map(|line| line.trim().strip_prefix("import ")).flat_map(|names| names.split(','));
    names.filter_map(|name| name.trim().split(['.', ' ']).next()).map(str::to_owned).collect()
}

#[test]
fn every_module_of_pythons_library_is_on_the_page() {
    let imported = imported("python.md");
    let missing = "import sys, warnings\nwarnings.simplefilter('ignore')\nfor name in sys.stdlib_module_names:\n    try:\n        \
        name[0] == '_' or name in ('this', 'antigravity', 'idlelib') or __import__(name)\n    except ImportError:\n        print(name)";
    // Importing all modules uses more fuel than a row's limit.
    let sandbox = Sandbox::builder(engine()).runtime("python-3.15-data").build().unwrap();
    let missing = sandbox.execute(missing).unwrap();
    assert!(missing.is_success() && missing.stdout.text().contains("tkinter"));
    let there = guidance::modules(Language::Python).map(str::to_owned);
    let unnamed: Vec<_> =
        there.chain(missing.stdout.text().lines().map(str::to_owned)).filter(|name| !imported.contains(name)).collect();
    assert!(unnamed.is_empty(), "{unnamed:?}");
}

#[test]
fn every_package_is_on_the_page_with_its_version() {
    let page = fs::read_to_string(path("python.md")).unwrap();
    for package in PackageList::builtin().unwrap().packages() {
        let row = format!("\n| `{}` {} | ", package.name, package.version);
        assert!(page.contains(&row), "the page has no row for `{}`", row.trim());
    }
}

#[test]
fn page_lists_sandbox_utils_functions_with_parameters() {
    let script = "import inspect, sandbox_utils as u\nfor name in u.__all__: print(f'`{name}{inspect.signature(getattr(u, name))}`')";
    let listed = sandbox_of("python-3.15-data").execute(script).unwrap().stdout.text();
    let page = fs::read_to_string(path("python.md")).unwrap();
    let unnamed: Vec<_> = listed.lines().filter(|function| !page.contains(*function)).collect();
    assert!(unnamed.is_empty() && listed.lines().count() == 32, "{unnamed:?}");
}

#[test]
fn capability_tables_are_parsed_into_rows() {
    let page = "| script | outcome | |\n|---|---|---|\n| `a = 1 \\| 2`<br>`b` | raises `E`: m | note |\n| `import a`, `import b` | works | |\n\n\
        | other | outcome |\n|---|---|\n| `c` | works |\n\n| script | then | outcome |\n|---|---|---|\n| `d` | `e` | prints `1`<br>`2` |\n";
    let read: Vec<_> = rows(page)
        .into_iter()
        .map(|row| format!("{} {} {:?} {}", row.line, row.scripts.join(" AND "), row.then, row.outcome))
        .collect();
    assert_eq!(
        read,
        [
            "2 a = 1 | 2\nb None raises `E`: m",
            "3 import a AND import b None works",
            "11 d Some(\"e\") prints `1`<br>`2`",
        ]
    );
}
