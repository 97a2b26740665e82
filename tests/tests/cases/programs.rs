//! Tests the agents in `tests/programs/`: the same agent in several languages, compared with one golden file. `BLESS=1`
//! writes the file from the Rust agent's output.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    sync::{Arc, Barrier, OnceLock},
};

use glovebox::Tool;
use glovebox_component_host::{Quotas, SandboxHost};
use glovebox_component_runner::{AppConfig, AppReport, Application, Applications, Input, Output, OutputBuffer};
use glovebox_tests::{Case, Goldens, engine, program_path, program_trial, trial_with, wasmtime_path, whole_matrix};
use libtest_mimic::{Failed, Trial};
use wit_component::DecodedWasm;

/// The languages that have an agent.
const LANGUAGES: [&str; 4] = ["rust", "c", "javascript", "python"];

/// The imports that programs may have, as prefixes of interface names. A Rust library only imports the interfaces of
/// its bindings, and no system interfaces.
const IMPORTS: [(&str, &[&str]); 8] = [
    ("agent-rust", &["glovebox:sandbox/", "wasi:cli/", "wasi:clocks/", "wasi:filesystem/", "wasi:io/"]),
    ("agent-c", &["glovebox:sandbox/", "wasi:cli/", "wasi:clocks/", "wasi:filesystem/", "wasi:io/"]),
    // These languages' toolchains import all of `wasi:cli/command`, even if it is unused.
    ("agent-javascript", &WHOLE_COMMAND),
    ("agent-python", &WHOLE_COMMAND),
    ("calculator", &["glovebox:sandbox/"]),
    ("forward", &["glovebox:sandbox/"]),
    ("parallel", &ASYNCHRONOUS),
    // The other component implements the tools.
    (
        "parallel-rates",
        &["glovebox:sandbox/types@0.2.0", "glovebox:sandbox/sandbox@0.3.0", "glovebox:sandbox/session@0.3.0"],
    ),
];
const ASYNCHRONOUS: [&str; 4] = [
    "glovebox:sandbox/types@0.2.0",
    "glovebox:sandbox/sandbox@0.3.0",
    "glovebox:sandbox/session@0.3.0",
    "glovebox:sandbox/tools@0.3.0",
];
const WHOLE_COMMAND: [&str; 7] =
    ["glovebox:sandbox/", "wasi:cli/", "wasi:clocks/", "wasi:filesystem/", "wasi:io/", "wasi:random/", "wasi:sockets/"];

pub(crate) fn trials(_: &[Case]) -> Vec<Trial> {
    let mut trials = Vec::new();
    for language in LANGUAGES.into_iter().filter(|language| built_at_every_push(language) || whole_matrix()) {
        let agent = format!("agent-{language}");
        let first = Arc::new(Agent { language, application: OnceLock::new() });
        let second = Arc::clone(&first);
        trials.push(program_trial(format!("programs/{language}/agent"), &agent, move |bytes| {
            first.output_equals_the_golden(bytes)
        }));
        trials.push(program_trial(format!("programs/{language}/unhandled"), &agent, move |bytes| {
            second.unhandled_error_ends_the_agent(bytes)
        }));
    }
    trials.push(program_trial("programs/runner", "runner", the_first_program_runs_scripts));
    trials.push(program_trial("programs/parallel", "parallel", the_asynchronous_program_runs_scripts));
    trials.push(program_trial("programs/parallel-rates", "parallel-rates", scripts_call_the_composed_tools));
    if whole_matrix() {
        // `cargo component build` builds this component from the same source.
        trials.push(program_trial("programs/runner-component", "runner-component", the_first_program_runs_scripts));
    }
    for (program, allowed) in IMPORTS {
        if !built_at_every_push(program.trim_start_matches("agent-")) && !whole_matrix() {
            continue;
        }
        let runner = move |bytes: &[u8]| imports_only_the_allowed(bytes, allowed);
        trials.push(program_trial(format!("programs/{program}/imports"), program, runner));
    }
    let needed = wasmtime_path().and_then(|wasmtime| Ok((wasmtime, program_path("agent-c")?)));
    trials.push(trial_with("programs/wasmtime/refuses", needed, |(tool, program)| {
        wasmtime_names_the_missing_import(&tool, &program)
    }));
    trials
}

/// Returns `false` for the agents whose interpreters take minutes to build and compile.
fn built_at_every_push(language: &str) -> bool {
    !["javascript", "python"].contains(&language)
}

/// An agent, compiled once for all its trials.
struct Agent {
    language: &'static str,
    application: OnceLock<Application>,
}

impl Agent {
    /// Runs the agent. Returns its result, standard output and standard error.
    fn run(&self, bytes: &[u8], quotas: Quotas) -> Result<(AppReport, String, String), Failed> {
        let application = self.application.get_or_init(|| {
            Applications::new(engine()).unwrap().load_bytes(format!("agent-{}", self.language), bytes).unwrap()
        });
        let host = SandboxHost::builder(engine()).quotas(quotas).build()?;
        let (stdout, stderr) = (OutputBuffer::new(1 << 20), OutputBuffer::new(1 << 20));
        let mut config = AppConfig::default();
        config.args = vec!["agent".into()];
        config.stdout = Output::Buffer(stdout.clone());
        config.stderr = Output::Buffer(stderr.clone());
        let ended = application.run(&host, &config)?;
        let text = |buffer: OutputBuffer| String::from_utf8(buffer.bytes());
        Ok((ended, text(stdout)?, text(stderr)?))
    }

    fn output_equals_the_golden(&self, bytes: &[u8]) -> Result<(), Failed> {
        let (ended, stdout, stderr) = self.run(bytes, Quotas::default())?;
        let golden = golden();
        if Goldens::blessing() && self.language == "rust" {
            fs::write(&golden, &stdout)?;
        }
        let held = fs::read_to_string(golden)?;
        if stdout != held || !stderr.is_empty() || !ended.outcome.is_success() {
            let lines = similar::TextDiff::from_lines(&held, &stdout).unified_diff().to_string();
            return Err(format!("{}\n{lines}\nstderr: {stderr}", ended.outcome.describe()).into());
        }
        // Leaks are harmless in a short program, but not in a long-running one.
        let left = (ended.sandbox.handles, ended.sandbox.sessions, ended.sandbox.held_bytes);
        if left != (0, 0, 0) {
            return Err(format!("handles, sessions and bytes that were not dropped: {left:?}").into());
        }
        Ok(())
    }

    /// Tests an agent whose fork fails, because the quota allows one session. The agents do not handle the error, so
    /// they must exit with it.
    fn unhandled_error_ends_the_agent(&self, bytes: &[u8]) -> Result<(), Failed> {
        let mut quotas = Quotas::default();
        quotas.sessions = 1;
        let (ended, stdout, stderr) = self.run(bytes, quotas)?;
        let last = stdout.lines().last().unwrap_or_default();
        // `quota-exceeded`, or the language's spelling of it.
        let printed = format!("{stderr}{last}").replace('-', "").to_lowercase();
        if ended.outcome.exit_code() != 1 || !printed.contains("quotaexceeded") {
            return Err(format!("{:?}\nstdout: {stdout}\nstderr: {stderr}", ended.outcome).into());
        }
        Ok(())
    }
}

fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("goldens/programs/agent.txt")
}

/// Runs the program in `docs/use-from-a-component.md`.
fn the_first_program_runs_scripts(bytes: &[u8]) -> Result<(), Failed> {
    let application = Applications::new(engine())?.load_bytes("runner", bytes)?;
    let host = SandboxHost::builder(engine()).build()?;
    let scripts = [
        ("print(sum(range(101)))", "5050\n", "", 0),
        ("open('a.txt', 'w').write('hi')", "", "it wrote a.txt, 2 bytes\n", 0),
        ("print(1); raise SystemExit(0)", "1\n", "", 0),
        ("print(1", "", "1:6: SyntaxError: '(' was never closed\n", 1),
        ("print(1); 1 / 0", "1\n", "ZeroDivisionError: division by zero\n", 1),
        ("raise SystemExit(4)", "", "the script exited with code 4\n", 1),
        ("while True: pass", "", "the script ran out of fuel (limit 1000000000)\n", 1),
    ];
    for (script, stdout, last, code) in scripts {
        let (out, err) = (OutputBuffer::new(1 << 20), OutputBuffer::new(1 << 20));
        let mut config = AppConfig::default();
        config.stdin = Input::Bytes(script.into());
        (config.stdout, config.stderr) = (Output::Buffer(out.clone()), Output::Buffer(err.clone()));
        let ended = application.run(&host, &config)?;
        let stderr = String::from_utf8(err.bytes())?;
        assert_eq!((ended.outcome.exit_code(), String::from_utf8(out.bytes())?.as_str()), (code, stdout), "{stderr}");
        assert!(stderr.ends_with(last) && stderr.is_empty() == last.is_empty(), "{script}: {stderr}");
    }
    Ok(())
}

/// Calls a composition of a component that runs scripts and a component that implements their tools.
fn scripts_call_the_composed_tools(bytes: &[u8]) -> Result<(), Failed> {
    let application = Applications::new(engine())?.load_bytes("parallel-rates", bytes)?;
    let host = SandboxHost::builder(engine()).build()?;
    let calls = [
        (r#"with-tools("print(tools.rate(of='EUR') + 1)")"#, r#"ok("118\n")"#),
        (
            r#"with-tools("import asyncio\nasync def main():\n  rates = [tools.rate.aio(of=c) for c in ('EUR', 'GBP') * 5]\n  print(sum(await asyncio.gather(*rates)))\nasyncio.run(main())")"#,
            r#"ok("1255\n")"#,
        ),
        (r#"with-tools("tools.rate(of='?')")"#, r#"err("raised ToolError: nobody trades this currency")"#),
        (r#"with-tools("tools.rate()")"#, "err("),
        (r#"with-tools("print(1)")"#, r#"ok("1\n")"#),
    ];
    for (call, expected) in calls {
        let ended = application.invoke(call, &host, &AppConfig::default())?;
        assert_eq!(ended.sandbox.handles, 0, "handles that were not dropped");
        let value = ended.value.ok_or_else(|| ended.outcome.describe())?;
        assert!(value.starts_with(expected), "{call}: {value}, expected {expected}");
    }
    Ok(())
}

/// Calls the exports of the asynchronous program in `docs/use-from-a-component.md`.
fn the_asynchronous_program_runs_scripts(bytes: &[u8]) -> Result<(), Failed> {
    let application = Applications::new(engine())?.load_bytes("parallel", bytes)?;
    // Each of two scripts waits for the other.
    let both = Arc::new(Barrier::new(2));
    let meet = Tool::new("meet", "Waits for the other script.").handler(move |_, _| {
        both.wait();
        Ok(serde_json::json!(null))
    });
    let host = SandboxHost::builder(engine()).tool(meet).build()?;
    let invoke = |call: &str| -> Result<String, Failed> {
        let ended = application.invoke(call, &host, &AppConfig::default())?;
        assert_eq!(ended.sandbox.handles, 0, "handles that were not dropped");
        Ok(ended.value.ok_or_else(|| ended.outcome.describe())?)
    };
    let calls = [
        (r#"run-all(["tools.meet(); print(1)", "tools.meet(); print(2)"])"#, r#"[ok("1\n"), ok("2\n")]"#),
        (r#"run-all(["1 / 0"])"#, r#"[err("raised ZeroDivisionError: division by zero")]"#),
        (r#"run-all(["print(1"])"#, r#"[err("1:6: SyntaxError: \'(\' was never closed")]"#),
        (r#"converse("print(tools.shout(text='a')['TEXT'])")"#, r#"ok(["shout {\"text\":\"a\"}", "A"])"#),
        (
            r#"converse("display({'text/html': '<b>'}, raw=True); tools.shout()")"#,
            r#"ok(["text/html, 3 bytes", "shout {}"])"#,
        ),
        (r#"count("one two three")"#, r#"ok("3 13\n")"#),
        (r#"pause("print(1)")"#, r#"err("the script has ended without a call")"#),
        (r#"transfer("x = len(x) + tools.ask(n=1)", "2")"#, r#"ok("3")"#),
    ];
    for (call, expected) in calls {
        assert_eq!(invoke(call)?, expected, "{call}");
    }
    let paused = invoke(r#"pause("print('before'); print(tools.ask(n=1))")"#)?;
    let bytes = paused.strip_prefix("ok(").and_then(|text| text.strip_suffix(')')).ok_or_else(|| paused.clone())?;
    // Each call has its own instance.
    let unpause = format!(r#"unpause({bytes}, "{{}}")"#);
    assert_eq!(invoke(&unpause)?, r#"ok("before\n{}\n")"#);
    Ok(())
}

fn imports_only_the_allowed(bytes: &[u8], allowed: &[&str]) -> Result<(), Failed> {
    let DecodedWasm::Component(resolve, world) = wit_component::decode(bytes)? else {
        return Err("the program is not a component".into());
    };
    for (key, _) in &resolve.worlds[world].imports {
        let name = resolve.name_world_key(key);
        if !allowed.iter().any(|begin| name.starts_with(begin)) {
            return Err(format!("unexpected import `{name}`").into());
        }
    }
    Ok(())
}

/// Runs a program in a host without the sandbox: Wasmtime's command-line tool. `docs/use-from-a-component.md` explains
/// the error message.
fn wasmtime_names_the_missing_import(wasmtime: &Path, program: &Path) -> Result<(), Failed> {
    let output = Command::new(wasmtime).arg("run").arg(program).output()?;
    let stderr = String::from_utf8(output.stderr)?;
    let missing = "component imports instance `glovebox:sandbox/sandbox@0.2.0`, but a matching implementation was not found in \
                   the linker";
    if output.status.code() != Some(1) || !stderr.contains(missing) || !output.stdout.is_empty() {
        return Err(format!("{}: {stderr}", output.status).into());
    }
    Ok(())
}
