//! Tests `validate --types` on the scripts in `mistakes.toml`, each with a seeded mistake, and on correct scripts. Also
//! tests type checks of a server.
//!
//! The tests are ignored by default, because they download the type checker. `.ci/full` runs them:
//! `cargo test --workspace --test command -- --ignored types::`.

mod packages;
mod programs;

use std::{
    collections::BTreeMap,
    fs,
    io::Write as _,
    path::Path,
    process::{Output, Stdio},
    sync::Once,
};

use serde_json::{Value, json};

use super::{output, prepared, support::text};

const TOOLS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/types/tools.json");

/// The comment at the end of the line that contains a script's mistake.
const MARK: &str = "# wrong";

/// The share of the mistakes that the checker must find, in percent.
const MIN_FOUND_PERCENT: usize = 95;

/// A script in the table.
struct SeededScript {
    kind: String,
    source: String,
}

/// Returns the scripts with mistakes, and the correct scripts.
fn scripts() -> (Vec<SeededScript>, Vec<SeededScript>) {
    let table: toml::Table = toml::from_str(include_str!("mistakes.toml")).unwrap();
    let part = |name| table.get(name).and_then(toml::Value::as_table).unwrap();
    let mistakes = part("mistakes").iter().flat_map(|(kind, scripts)| list(kind, scripts)).collect();
    (mistakes, list("correct", part("correct").get("scripts").unwrap()))
}

fn list(kind: &str, scripts: &toml::Value) -> Vec<SeededScript> {
    let scripts = scripts.as_array().unwrap().iter();
    scripts.map(|source| SeededScript { kind: kind.into(), source: source.as_str().unwrap().into() }).collect()
}

/// Downloads the checker, so that later commands print no progress messages.
fn fetch() {
    static FETCH: Once = Once::new();
    FETCH.call_once(|| {
        let fetched = output(&["validate", "--types", "-e", "1"]);
        assert!(fetched.status.success(), "{}", text(&fetched.stderr));
    });
}

/// Runs `validate --types`.
fn validate(args: &[&str]) -> Output {
    fetch();
    output(&[&["validate", "--types"][..], args].concat())
}

/// Checks the scripts with one command. Returns the list of diagnostics of each.
fn diagnostics(dir: &Path, scripts: &[SeededScript]) -> Vec<Vec<Value>> {
    let files: Vec<String> = (0..scripts.len()).map(|at| dir.join(format!("{at}.py")).display().to_string()).collect();
    for (file, script) in files.iter().zip(scripts) {
        fs::write(file, &script.source).unwrap();
    }
    let mut args = vec!["--json", "--definitions", TOOLS];
    args.extend(files.iter().map(String::as_str));
    let output = validate(&args);
    let lines: Vec<Value> = text(&output.stdout).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), scripts.len(), "{}", text(&output.stderr));
    lines.iter().map(|line| line["diagnostics"].as_array().unwrap().clone()).collect()
}

#[test]
#[ignore = "downloads the type checker; `.ci/full` runs it"]
fn seeded_mistakes_are_found() {
    let dir = tempfile::tempdir().unwrap();
    let (mistakes, correct) = scripts();
    let mut kinds: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    for (script, found) in mistakes.iter().zip(diagnostics(dir.path(), &mistakes)) {
        let line = script.source.lines().position(|line| line.ends_with(MARK)).unwrap() + 1;
        let is_found = found.iter().any(|diagnostic| diagnostic["line"] == line);
        if !is_found {
            println!("not found: {}\n{}", script.kind, script.source);
        }
        let (found_count, count) = kinds.entry(&script.kind).or_default();
        (*found_count, *count) = (*found_count + usize::from(is_found), *count + 1);
    }
    let found: usize = kinds.values().map(|(found, _)| found).sum();
    println!("{found} of {} mistakes found: {kinds:?}", mistakes.len());
    assert!(found * 100 >= mistakes.len() * MIN_FOUND_PERCENT, "{found} of {}: {kinds:?}", mistakes.len());
    for (script, found) in correct.iter().zip(diagnostics(dir.path(), &correct)) {
        assert!(found.is_empty(), "{}: {found:?}", script.source);
    }
}

#[test]
#[ignore = "downloads the type checker; `.ci/full` runs it"]
fn checks_by_one_process_do_not_affect_each_other() {
    let dir = tempfile::tempdir().unwrap();
    let scripts: Vec<SeededScript> = [
        ("secret: int = 1\nclass tools: pass", 0),
        ("print(secret)", 1),
        ("tools.weathr('Oslo')\né = '😀'; tools.weather()", 2),
        ("tools.weather('Oslo')", 0),
    ]
    .map(|(source, count)| SeededScript { kind: count.to_string(), source: source.to_owned() })
    .into();
    let found = diagnostics(dir.path(), &scripts);
    for (script, found) in scripts.iter().zip(&found) {
        assert_eq!(found.len().to_string(), script.kind, "{}: {found:?}", script.source);
    }
    // Columns count characters.
    let columns = found.iter().flatten().map(|diagnostic| diagnostic["column"].as_u64().unwrap());
    assert_eq!(columns.collect::<Vec<_>>(), [7, 1, 10]);
}

#[test]
#[ignore = "downloads the type checker; `.ci/full` runs it"]
fn accepted_attributes_do_not_hide_mistakes() {
    let dir = tempfile::tempdir().unwrap();
    let assignments: String = (0..150).map(|at| format!("place.a{at} = {at}\n")).collect();
    let source = format!("class Place: pass\nplace = Place()\n{assignments}print(plaice)");
    let script = || SeededScript { kind: String::new(), source: source.clone() };
    // For two scripts, the checker stays running.
    for scripts in [vec![script()], vec![script(), script()]] {
        for found in diagnostics(dir.path(), &scripts) {
            assert_eq!((found.len(), &found[0]["line"]), (1, &json!(153)), "{found:?}");
        }
    }
}

#[test]
#[ignore = "downloads the type checker; `.ci/full` runs it"]
fn type_errors_are_printed_like_syntax_errors() {
    let script = "é = '😀'; tools.weathr('Oslo')\nawait tools.weather.aio()\nimport numpy\nnumpy.missing\n";
    let found = validate(&["--definitions", TOOLS, "-e", script]);
    let expected = "<sandbox>:1:10: `tools` has no attribute `weathr` [missing-attribute]\n\
                    <sandbox>:2:7: No argument provided for required parameter `city` of `tools.weather.aio` \
                    [missing-argument]\n";
    assert_eq!((text(&found.stdout).as_str(), text(&found.stderr).as_str()), ("", expected));
    assert_eq!(found.status.code(), Some(1));

    // Scripts with syntax errors are not checked further. Without definitions, `tools` accepts everything.
    for (script, code, part) in
        [("print(missing", 1, "SyntaxError"), ("tools.weathr('Oslo').text", 0, ""), ("print(missing)", 1, "`missing`")]
    {
        let found = validate(&["-e", script]);
        assert_eq!(found.status.code(), Some(code), "{script}: {}", text(&found.stderr));
        assert!(text(&found.stderr).contains(part), "{script}: {}", text(&found.stderr));
        assert_eq!(text(&found.stderr).lines().count(), usize::try_from(code).unwrap(), "{script}");
    }
}

/// Starts a server, calls one of its tools, and returns the structured result. The server stores its data in `dir`.
fn call(dir: &Path, name: &str, arguments: &Value) -> Value {
    let client = json!({ "name": "test", "version": "1" });
    let parameters = json!({ "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client });
    let messages = [
        json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": parameters }),
        json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }),
        json!({
            "jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": { "name": name, "arguments": arguments },
        }),
    ];
    let store = dir.join("store").display().to_string();
    let mut command = prepared(&["mcp", "--types", "--tool", "echo=cat", "--store", &store]);
    command.env("XDG_STATE_HOME", dir);
    let mut server = command.stdin(Stdio::piped()).spawn().unwrap();
    let lines: String = messages.iter().map(|message| format!("{message}\n")).collect();
    // The server answers, and exits at the end of its input.
    server.stdin.take().unwrap().write_all(lines.as_bytes()).unwrap();
    let output = server.wait_with_output().unwrap();
    let answers = text(&output.stdout);
    let mut answers = answers.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let answer = answers.find(|answer| answer.get("id") == Some(&json!(2)));
    let content = answer.as_ref().and_then(|answer| answer.pointer("/result/structuredContent"));
    content.unwrap_or_else(|| panic!("{}", text(&output.stderr))).clone()
}

#[test]
#[ignore = "downloads the type checker; `.ci/full` runs it"]
fn server_runs_only_code_without_type_errors() {
    let dir = tempfile::tempdir().unwrap();
    let run = |session: Option<&str>, code: &str| {
        let arguments = json!({ "language": "python", "code": code, "session": session, "check_types": true });
        call(dir.path(), "run_code", &arguments)
    };
    call(dir.path(), "session_open", &json!({ "language": "python", "session": "s" }));
    for (session, code, line, stdout) in [
        (None, "print(tools.echo(a=1))", None, "{'a': 1}\n"),
        (None, "print(1)\ntools.ecco(a=1)", Some(2), ""),
        (None, "print(rows)", Some(1), ""),
        // In a session, the variables of earlier scripts are known.
        (Some("s"), "print(rows)", Some(1), ""),
        (Some("s"), "rows = [1]", None, ""),
        (Some("s"), "rows.append(2)\nprint(rows)", None, "[1, 2]\n"),
        (Some("s"), "rows.append(3)\ntools.ecco(rows)", Some(2), ""),
        (Some("s"), "rows.append(3)\nrows.push(rows)", Some(2), ""),
        (Some("s"), "print(rows)", None, "[1, 2]\n"),
    ] {
        let answer = run(session, code);
        let found = answer["type_errors"][0]["line"].as_u64();
        assert_eq!((found, &answer["stdout"]), (line, &json!(stdout)), "{code}: {answer}");
    }
}

/// The scripts that fill the session of [`scripts_are_checked_against_the_variables_of_a_session`].
const SESSION: &str = r#"
import dataclasses, datetime as dt, json, math
import xml.etree.ElementTree as tree, urllib.request
import numpy as np
from collections import Counter
from datetime import date
from math import sqrt as root
from typing import Literal
rows, names, total, text, day, counts = [{"a": 1}], {"Ada"}, 5, "abc", date(2026, 1, 2), Counter("abc")
cache, list = None, [1]
class Account:
    rate = 0.5
    def __init__(self, owner): self.owner = owner
    def pay(self, euros, *, note=""): self.paid = euros
    def __len__(self): return 1
class Failed(Exception):
    def __init__(self, code): self.code = code
@dataclasses.dataclass
class Point:
    x: int
    y: int = 0
account, point = Account("Ada"), Point(1)
account.late = 1
async def load(url, timeout=5, *, retries=1): return {"url": url}
def mean(values): return sum(values) / len(values)
half = lambda value: value / 2
"#;

#[test]
#[ignore = "downloads the type checker; `.ci/full` runs it"]
fn scripts_are_checked_against_the_variables_of_a_session() {
    let dir = tempfile::tempdir().unwrap();
    let store = dir.path().to_str().unwrap();
    let filled = output(&["run", "--store", store, "--session", "s", "-e", SESSION]);
    assert!(filled.status.success(), "{}", text(&filled.stderr));
    for (script, rule) in [
        // Correct scripts.
        ("rows.append({'a': 2})\nprint(rows[0]['a'] + total, names | {'Bo'}, text.upper(), day.year)", None),
        ("print(json.dumps(rows), math.pi, dt.date.today(), tree.Element('a'), urllib.request.Request('x'))", None),
        ("print(np.zeros(3).mean(), counts.most_common(1), Counter('a'), date.today(), root(4))", None),
        ("print(account.owner, Account('Bo').owner, mean([1, 2]), half(3), mean(values=[1]))", None),
        ("account.pay(3, note='x')\naccount.owner = 'Bo'\nprint(len(account), account.paid, account.late)", None),
        ("Account.rate = 1\nprint(Account('Bo').rate, account.rate)", None),
        ("class Saver(Account):\n    def pay(self, euros):\n        super().pay(euros)\nSaver('Bo').pay(1)", None),
        ("try:\n    raise Failed(3)\nexcept Failed as error:\n    print(error.code, error.args)", None),
        ("print(point.x, Point(1, y=2).y, dataclasses.asdict(point), dataclasses.replace(point, x=2))", None),
        ("@dataclasses.dataclass\nclass Point3(Point):\n    z: int = 0\nprint(Point3(1, 2, 3).x)", None),
        ("def owner(of: Account): return of.owner\nprint(owner(account), isinstance(account, Account))", None),
        ("answer = await load('x', retries=2)\nprint(answer['url'])", None),
        ("list.append(2)\nrows = None\nprint(rows)\ndel text", None),
        ("def f(mode: Literal['a', 'b']): return mode\nprint(f('a'))", None),
        ("def fill():\n    global cache, total\n    cache, total = {}, 'x'\nfill()\ncache['a'] = total.upper()", None),
        ("for row in rows:\n    row['b'] = row.get('a')\nif cache is None:\n    cache = {}\ncache['a'] = 1", None),
        // Scripts with a mistake in the last line.
        ("total\nprint(ros)", Some("unresolved-reference")),
        ("rows.push(1)", Some("missing-attribute")),
        ("print(text + total)", Some("unsupported-operator")),
        ("text.append('x')", Some("missing-attribute")),
        ("print(day.to_iso())", Some("missing-attribute")),
        ("for digit in total: pass", Some("not-iterable")),
        ("list.push(2)", Some("missing-attribute")),
        ("print(json.parse('{}'))", Some("missing-attribute")),
        ("print(dt.now())", Some("missing-attribute")),
        ("print(date.today().to_iso())", Some("missing-attribute")),
        ("print(root('16'))", Some("invalid-argument-type")),
        ("print(mean())", Some("missing-argument")),
        ("print(mean([1], [2]))", Some("too-many-positional-arguments")),
        ("print(half(number=2))", Some("missing-argument")),
        ("await load('x', retry=2)", Some("unknown-argument")),
        ("load('x')\nprint(1)", Some("unused-awaitable")),
        ("print(account.ownr)", Some("missing-attribute")),
        ("account.pay(note='x')", Some("missing-argument")),
        ("account.pay(1, 'x')", Some("too-many-positional-arguments")),
        ("Account()", Some("missing-argument")),
        ("print(account - 1)", Some("unsupported-operator")),
        ("raise Failed()", Some("missing-argument")),
        ("print(point.z)", Some("missing-attribute")),
        ("Point(1, z=2)", Some("unknown-argument")),
        ("answer = load('x')\nprint(answer['url'])", Some("not-subscriptable")),
    ] {
        let found = validate(&["--store", store, "--session", "s", "-e", script]);
        let errors = text(&found.stderr);
        match rule {
            None => assert_eq!((found.status.code(), errors.as_str()), (Some(0), ""), "{script}"),
            Some(rule) => {
                assert_eq!(found.status.code(), Some(1), "{script}: {errors}");
                assert!(errors.contains(&format!("[{rule}]")), "{script}: {errors}");
            }
        }
    }
    // The checks have not changed the session.
    let listed = output(&["session", "--store", store, "list", "--json"]);
    let sessions: Value = serde_json::from_slice(&listed.stdout).unwrap();
    assert_eq!(sessions[0]["record"]["executions"], 1);
}

/// The Python package passes the variables of a session to the command.
#[test]
#[ignore = "downloads the type checker; `.ci/full` runs it"]
fn described_variables_are_known() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("variables.json");
    let list = r#"[{"name":"rows","kind":{"instance":{"module":"builtins","class":"list"}}}]"#;
    let invalid = r#"[{"name":"a b","kind":"other"}]"#;
    for (variables, script, code) in [
        (list, "rows.append(1)", 0),
        (list, "rows.push(1)", 1),
        (list, "print(missing)", 1),
        // Unknown variables, and variables that are not valid.
        ("null", "print(missing)", 0),
        (invalid, "print(missing)", 0),
    ] {
        fs::write(&file, variables).unwrap();
        let found = validate(&["--variables", file.to_str().unwrap(), "-e", script]);
        assert_eq!(found.status.code(), Some(code), "{variables} {script}: {}", text(&found.stderr));
    }
    fs::write(&file, "[").unwrap();
    let failed = validate(&["--variables", file.to_str().unwrap(), "-e", "1"]);
    assert!(text(&failed.stderr).contains("cannot read the variables"), "{}", text(&failed.stderr));
}
