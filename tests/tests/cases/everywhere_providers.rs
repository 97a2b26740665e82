//! Tests the published providers: size, imports, results of `wasmtime run --invoke`, and the types that jco generates.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use glovebox_tests::{Case, everywhere::Host, missing_trial, provider_path, trial_with, wasmtime_path, whole_matrix};
use libtest_mimic::{Failed, Trial};
use wit_component::DecodedWasm;
use wit_parser::Resolve;

const MB: u64 = 1_000_000;

/// All providers, with their names, maximum sizes and languages.
const PROVIDERS: [(&str, u64, &[&str]); 6] = [
    ("glovebox", 33 * MB, &["python", "javascript"]),
    ("glovebox-closed", 33 * MB, &["python", "javascript"]),
    ("glovebox-python", 30 * MB + 9 * MB / 10, &["python"]),
    ("glovebox-python-closed", 30 * MB + 9 * MB / 10, &["python"]),
    ("glovebox-javascript", 4 * MB + MB / 10, &["javascript"]),
    ("glovebox-javascript-closed", 4 * MB + MB / 10, &["javascript"]),
];

/// The imports that open providers may have: the tools with their types, a clock, and a way to wait.
const IMPORTS: [&str; 5] = [
    "glovebox:sandbox/types@0.2.0",
    "glovebox:sandbox/tools@0.2.0",
    "wasi:clocks/monotonic-clock@0.2.",
    "wasi:clocks/wall-clock@0.2.",
    "wasi:io/poll@0.2.",
];

pub(crate) fn trials(_: &[Case]) -> Vec<Trial> {
    if let Some(line) = PROVIDERS.iter().find_map(|(name, ..)| provider_path(name).err()) {
        return vec![missing_trial("everywhere_providers", line)];
    }
    let mut trials = Vec::new();
    for (name, max_bytes, languages) in PROVIDERS {
        let closed = name.ends_with("-closed");
        let trial = |what: &str| format!("everywhere_providers/{name}/{what}");
        trials.push(trial_with(trial("size"), provider_path(name), move |path| {
            let bytes = fs::metadata(path)?.len();
            if bytes <= max_bytes { Ok(()) } else { Err(format!("{bytes} bytes, at most {max_bytes}").into()) }
        }));
        trials.push(trial_with(trial("imports"), provider_path(name), move |path| imports(&path, closed)));
        trials.push(trial_with(trial("world"), provider_path(name), move |path| fits(&path, closed)));
        // A command line cannot provide the tools that an open provider imports.
        for language in languages.iter().filter(|_| closed) {
            let needed = provider_path(name).and_then(|path| wasmtime_path().map(|_| path));
            trials.push(trial_with(trial(&format!("invoke-{language}")), needed, move |path| invoke(&path, language)));
        }
        // Requires a separate compilation for the pool, which takes 15 seconds with Python.
        if closed && (whole_matrix() || languages == ["javascript"]) {
            let needed = provider_path(name).and_then(|path| wasmtime_path().map(|_| path));
            let run = move |path: PathBuf| pooled(&path, languages[0], languages.len() + 1);
            trials.push(trial_with(trial("pooled"), needed, run));
        }
    }
    let built = provider_path("glovebox").and_then(|_| Host::node().map(drop));
    trials.push(trial_with("everywhere_providers/secret", built.clone(), |()| secret()));
    trials.push(trial_with("everywhere_providers/typed", built, |()| typed()));
    trials
}

fn imports(path: &Path, closed: bool) -> Result<(), Failed> {
    let DecodedWasm::Component(resolve, world) = wit_component::decode(&fs::read(path)?)? else {
        return Err("the provider is not a component".into());
    };
    let world = resolve.worlds.get(world).ok_or("the component has no world")?;
    let names: Vec<_> = world.imports.keys().map(|key| resolve.name_world_key(key)).collect();
    let known = |name: &String| !closed && IMPORTS.iter().any(|known| name.starts_with(known));
    if let Some(name) = names.iter().find(|name| !known(name)) {
        return Err(format!("unexpected import `{name}`").into());
    }
    let exports: Vec<_> = world.exports.keys().map(|key| resolve.name_world_key(key)).collect();
    let only =
        |name: &String| ["glovebox:sandbox/sandbox@0.2.0", "glovebox:sandbox/types@0.2.0"].contains(&name.as_str());
    let unexpected = exports.iter().find(|name| !only(name));
    unexpected.map_or(Ok(()), |name| Err(format!("unexpected export `{name}`").into()))
}

/// Checks that a provider matches the contract's world, including the types of every function. The world of an open
/// provider is `provider` plus the clocks.
fn fits(path: &Path, closed: bool) -> Result<(), Failed> {
    let mut resolve = Resolve::default();
    let (contract, _) = resolve.push_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../wit"))?;
    let world = if closed {
        resolve.select_world(&[contract], Some("provider-closed"))?
    } else {
        let with_clocks = resolve.push_str("with-clocks.wit", WITH_CLOCKS)?;
        resolve.select_world(&[with_clocks], Some("provider-with-clocks"))?
    };
    wit_component::targets(&resolve, world, &fs::read(path)?).map_err(|error| format!("{error:?}").into())
}

const WITH_CLOCKS: &str = "
    package glovebox:tests;

    world provider-with-clocks {
        include glovebox:sandbox/provider@0.2.0;
        import wasi:clocks/monotonic-clock@0.2.12;
        import wasi:clocks/wall-clock@0.2.12;
    }
";

/// Calls `execute` and `validate` with WAVE arguments, where omitted fields are `none` and `{:}` is an empty record.
fn invoke(path: &Path, language: &str) -> Result<(), Failed> {
    let (print, wrong) = match language {
        "python" => ("print(6 * 7)", "print("),
        _ => ("console.log(6 * 7)", "console.log("),
    };
    let call = |name: &str, source: &str| format!("{name}({language}, {{source: {source:?}}}, {{:}})");
    for (call, parts) in [
        (call("execute", print), &["ok({outcome: completed", "bytes: [52, 50, 10]"][..]),
        (call("execute", "1 +"), &["ok({outcome: raised({type-name: \"SyntaxError\""]),
        (call("validate", print), &["ok([])"]),
        (call("validate", wrong), &["ok([{line: 1, column: "]),
        ("execute(named(\"cobol\"), {source: \"\"}, {:})".to_owned(), &["err(unknown-runtime("]),
    ] {
        let printed = succeeded(Host::invoke(path, &call)?)?;
        if let Some(part) = parts.iter().find(|part| !printed.contains(**part)) {
            return Err(format!("`{call}` printed\n{printed}without `{part}`").into());
        }
    }
    Ok(())
}

/// Tests that `execute` fails with Wasmtime's default pool, which `wasmtime serve` uses, and succeeds with a pool that
/// allows `per_module` memories and tables per module.
fn pooled(path: &Path, language: &str, per_module: usize) -> Result<(), Failed> {
    let call = format!("execute({language}, {{source: \"\"}}, {{:}})");
    let room = format!("pooling-max-memories-per-module={per_module},pooling-max-tables-per-module={per_module}");
    let refused = Host::invoke_with(path, &call, &["-O", "pooling-allocator=y"])?.output()?;
    let reason = String::from_utf8_lossy(&refused.stderr).into_owned();
    let message = format!("defined memories count of {per_module} exceeds the per-instance limit of 1");
    if refused.status.success() || !reason.contains(&message) {
        return Err(format!(
            "the default pool must be too small, but the command exited with {}: {reason}",
            refused.status
        )
        .into());
    }
    let printed = succeeded(Host::invoke_with(path, &call, &["-O", "pooling-allocator=y", "-O", &room])?)?;
    if printed.starts_with("ok({outcome: completed") { Ok(()) } else { Err(printed.into()) }
}

/// Compiles the program `typed.mts` against the generated declarations, and checks its output.
fn typed() -> Result<(), Failed> {
    let mut check = Host::node()?;
    check.args(["node_modules/typescript/bin/tsc", "--project", "tsconfig.json"]);
    succeeded(check)?;
    let mut program = Host::node()?;
    program.arg("typed.mts");
    let printed = succeeded(program)?;
    if printed == TYPED { Ok(()) } else { Err(format!("the program printed\n{printed}instead of\n{TYPED}").into()) }
}

const TYPED: &str = "\
python completed 5050
python completed 42
javascript completed 1,4,9
javascript raised TypeError\u{20}
javascript exhausted\u{20}
validate 1:6
session 1 21
error unknown-runtime
";

/// The memory of a large session or execution must only appear in that session's own next state.
fn secret() -> Result<(), Failed> {
    let mut program = Host::node()?;
    program.args(["secret.mjs", "../../programs-node/glovebox"]);
    let printed = succeeded(program)?;
    let looks = [
        "after the execution that has it: there",
        "in the next execution: not there",
        "after the session that has it: there",
        "in another session: not there",
        "in its own session again: there",
        "in a separate execution: not there",
        "after it is closed: not there",
    ];
    let expected: String = ["javascript", "python"]
        .iter()
        .flat_map(|language| looks.iter().map(move |look| format!("{language}: {look}\n")))
        .collect();
    if printed == expected {
        Ok(())
    } else {
        Err(format!("the program printed\n{printed}instead of\n{expected}").into())
    }
}

fn succeeded(mut command: Command) -> Result<String, Failed> {
    let output = command.output()?;
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    if output.status.success() {
        return Ok(printed);
    }
    Err(format!("{command:?} ended with {}:\n{printed}{}", output.status, String::from_utf8_lossy(&output.stderr))
        .into())
}
