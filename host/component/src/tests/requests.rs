//! Tests of request inputs and execution reports.

use glovebox::BuildError;

use super::*;
use crate::wit::{
    sandbox::{HostFiles, HostStarted, Step},
    types::{self, AdviceKind, Exhausted, FuelStatus, InputFile, ResourceKind},
};

fn file(path: &str, text: &str) -> InputFile {
    InputFile { path: path.into(), bytes: text.into() }
}

fn with_files(source: &str, files: &[InputFile]) -> Request {
    Request { files: Some(files.to_vec()), ..request(source) }
}

fn invalid_argument<T: std::fmt::Debug>(result: Result<T, SandboxFailure>) -> String {
    match error_of(result) {
        SandboxError::InvalidArgument(text) => text,
        other => panic!("{other:?}"),
    }
}

#[test]
fn script_reads_request_files_without_owning_them() {
    let mut ctx = ctx();
    let source = "print(std.loadFile('a/b'), std.loadFile('twice')); std.open('new', 'w').close()";
    let files = [file("a/b", "1"), file("twice", "no"), file("twice", "2")];
    let execution = ctx.run(Runtime::Javascript, with_files(source, &files), no_policy()).unwrap();
    assert_eq!(String::from_utf8_lossy(&execution.stdout.bytes), "1 2\n");
    assert_eq!((execution.files_created, execution.files_modified), (vec!["new".to_owned()], vec![]));
    assert_eq!(ctx.usage().held_bytes, 0);
    assert_eq!(
        stdout_of(&mut ctx, "print(std.loadFile('a/b'))"),
        "null\n",
        "files of another execution are not visible"
    );
}

#[test]
fn files_that_cannot_be_written_are_named() {
    let mut ctx = ctx();
    for path in ["/a", "../a", "", "a\0"] {
        let refused = ctx.run(Runtime::Javascript, with_files("1", &[file(path, "")]), no_policy());
        assert!(invalid_argument(refused).starts_with("`files`: "), "{path:?}");
    }
    let policy = limited(|limits| limits.workspace_bytes = Some(1_000));
    let refused = ctx.run(Runtime::Javascript, with_files("1", &[file("large", &"x".repeat(5_000))]), policy);
    assert!(invalid_argument(refused).starts_with("`files`: `large`: "));
    let mut ctx = with_quotas(|quotas| quotas.held_bytes = 1_000);
    for (length, fits) in [(999, true), (1_000, false)] {
        let ran = ctx.run(Runtime::Javascript, with_files("1", &[file("a", &"x".repeat(length))]), no_policy());
        assert_eq!(ran.is_ok(), fits, "{length}");
    }
}

#[test]
fn context_becomes_a_script_variable() {
    let mut ctx = ctx();
    let with = |json: &str| Request { context: Some(json.into()), ..request("print(context[0].a)") };
    let execution = ctx.run(Runtime::Javascript, with(r#"[{"a": 7}]"#), no_policy()).unwrap();
    assert_eq!(execution.stdout.bytes, b"7\n");
    assert!(
        invalid_argument(ctx.run(Runtime::Javascript, with("{"), no_policy())).starts_with("`context` is not JSON")
    );
    let policy = limited(|limits| limits.stdin_bytes = Some(3));
    assert!(ctx.run(Runtime::Javascript, with("[0]"), policy.clone()).is_ok());
    assert_eq!(
        error_of(ctx.run(Runtime::Javascript, with("[ 0]"), policy)),
        SandboxError::StdinTooLarge(types::TooLarge { bytes: 4, limit: 3 })
    );
    // Setting the context can use as much of the fuel quota as a script. Unused fuel is returned.
    assert!(ctx.usage().fuel < 1_000_000_000);
}

#[test]
fn session_has_functions_for_files_and_context() {
    let mut ctx = ctx();
    let session = open(&mut ctx);
    let files = with_files("1", &[file("a", "1")]);
    let context = Request { context: Some("1".into()), ..request("1") };
    for (request, name) in [(files, "`files`"), (context, "`context`")] {
        assert!(invalid_argument(HostSession::execute(&mut ctx, same(&session), request.clone())).starts_with(name));
        assert!(invalid_argument(HostSession::start(&mut ctx, same(&session), request.clone())).starts_with(name));
        assert!(ctx.validate(Runtime::Javascript, request, no_policy()).unwrap().is_empty());
    }
}

#[test]
fn guidance_explains_the_limit() {
    let mut ctx = ctx();
    let policy = limited(|limits| (limits.fuel, limits.fuel_reserve) = (Some(20_000_000), Some(0)));
    let guidance = ctx.run(Runtime::Javascript, request("while (true) {}"), policy).unwrap().guidance;
    assert_eq!((guidance.fuel.status, guidance.fuel.suggested_limit), (FuelStatus::Exhausted, Some(40_000_000)));
    assert_eq!((guidance.fuel.limit, guidance.fuel.likely_causes.len()), (20_000_000, 1));
    assert_eq!(guidance.advice.iter().map(|advice| advice.kind).collect::<Vec<_>>(), [AdviceKind::Fuel]);
    let session = open(&mut ctx);
    let execution = HostSession::execute(&mut ctx, same(&session), request("require('fss')")).unwrap();
    assert_eq!(execution.guidance.advice.first().map(|advice| advice.kind), Some(AdviceKind::Module));
}

#[test]
fn globals_persist_through_request_files() {
    let mut ctx = ctx();
    let policy = || Policy { auto_persist_globals: Some(true), ..no_policy() };
    let run = |ctx: &mut SandboxCtx, request: Request| {
        let started = Host::start(ctx, Runtime::Javascript, request, policy(), Vec::new()).unwrap();
        let Step::Done(execution) = ctx.continue_(same(&started), Vec::new(), None).unwrap() else { panic!() };
        let files = HostStarted::files(ctx, started).unwrap();
        (execution, HostFiles::read(ctx, files, ".globals_js.json".into(), 0, 1_000).unwrap())
    };
    let (first, state) = run(&mut ctx, request("let count = 1"));
    assert_eq!((first.files_created, &*state), (vec![], br#"{"_state":{},"count":1}"#.as_slice()));
    let stored = InputFile { path: ".globals_js.json".into(), bytes: state };
    let (second, state) = run(&mut ctx, with_files("count += 1", &[stored]));
    assert_eq!((second.outcome, &*state), (Outcome::Completed, br#"{"_state":{},"count":2}"#.as_slice()));
}

#[test]
fn packages_are_importable_by_default() {
    let mut ctx = ctx();
    for (inject_setup, found) in [(None, "True\n"), (Some(true), "True\n"), (Some(false), "False\n")] {
        let policy = Policy { inject_setup, ..no_policy() };
        let source = "import sys; print('/app/site-packages' in sys.path)";
        let execution = ctx.run(Runtime::Python, request(source), policy).unwrap();
        assert_eq!(String::from_utf8_lossy(&execution.stdout.bytes), found, "{inject_setup:?}");
    }
}

#[test]
fn a_session_describes_its_runtime() {
    let mut ctx = ctx();
    let session = open(&mut ctx);
    let info = HostSession::info(&mut ctx, session).unwrap();
    assert_eq!((info.language, info.rollbacks, info.checkpoints_skipped), (types::Language::Javascript, 0, 0));
    assert!(ctx.provider().runtimes.iter().any(|runtime| runtime.name == info.runtime_name));
}

#[test]
fn script_endings_map_to_outcomes() {
    let mut ctx = ctx();
    let mut run = |source: &str| ctx.run(Runtime::Javascript, request(source), no_policy()).unwrap();
    assert_eq!(run("std.exit(3)").outcome, Outcome::Exited(3));
    let Outcome::Raised(raised) = run("throw new RangeError('too far')").outcome else {
        panic!("the outcome is not `Raised`")
    };
    assert_eq!((raised.type_name.as_str(), raised.message.as_str(), raised.line), ("RangeError", "too far", Some(1)));
    let Outcome::Exhausted(Exhausted { resource, .. }) = run("new ArrayBuffer(1 << 30)").outcome else {
        panic!("the outcome is not `Exhausted`");
    };
    assert_eq!(resource, ResourceKind::Memory);
    let truncated = run("std.out.puts('x'.repeat(5_000_000))");
    assert_eq!((truncated.stdout.retained_bytes, truncated.stdout.total_bytes), (2_000_000, 5_000_000));
}

#[test]
fn output_list_has_the_first_four_mebibytes() {
    let mut ctx = host(|policy| policy.limits.stdout_bytes = 8 << 20, |_| {}).ctx();
    for (length, given) in [((4 << 20) - 1, (4 << 20) - 1), (4 << 20, 4 << 20), ((4 << 20) + 1, 4 << 20)] {
        let source = format!("std.out.puts('x'.repeat({length}))");
        let stdout = ctx.run(Runtime::Javascript, request(&source), no_policy()).unwrap().stdout;
        assert_eq!((stdout.bytes.len(), stdout.retained_bytes, stdout.total_bytes), (given, length, length));
    }
}

#[test]
fn standard_input_is_limited_except_in_validation() {
    let mut ctx = ctx();
    let policy = limited(|limits| limits.stdin_bytes = Some(4));
    for (length, fits) in [(3, true), (4, true), (5, false)] {
        let with_stdin = Request { stdin: Some(vec![b'x'; length]), ..request("console.log(std.in.getline())") };
        let ran = ctx.run(Runtime::Javascript, with_stdin.clone(), policy.clone());
        match ran {
            Ok(execution) => assert!(fits && execution.stdout.bytes.len() == length + 1, "{execution:?}"),
            Err(SandboxFailure::Error(error)) => {
                assert!(!fits && error == SandboxError::StdinTooLarge(types::TooLarge { bytes: 5, limit: 4 }));
            }
            Err(other) => panic!("{other:?}"),
        }
        assert!(ctx.validate(Runtime::Javascript, with_stdin, policy.clone()).unwrap().is_empty());
    }
}

#[test]
fn validation_returns_diagnostics_without_running() {
    let mut ctx = ctx();
    let diagnostics = ctx.validate(Runtime::Python, request("x = 1\ny ="), no_policy()).unwrap();
    assert_eq!((diagnostics.len(), diagnostics[0].line), (1, 2));
    let timed = Request { deadline_ms: Some(0), ..request("while True: pass") };
    assert!(ctx.validate(Runtime::Python, timed, no_policy()).unwrap().is_empty());
}

#[test]
fn host_details_are_hidden_from_components() {
    let secret = "/home/secret/cache";
    let error = BuildError::NotPersisting { name: secret.into() };
    let SandboxError::Unavailable(text) = SandboxError::from(error) else { panic!("the error is not `Unavailable`") };
    assert!(!text.contains("secret"), "{text}");
}

#[test]
fn info_names_version_and_features() {
    let info = ctx().provider();
    assert_eq!((info.name.as_str(), info.version.as_str()), ("glovebox", env!("CARGO_PKG_VERSION")));
    assert_eq!(info.features, types::Features::all());
}
