//! Tests of the fields of requests, and of the reports of executions.

use super::*;
use crate::bindings::types::{AdviceKind, FuelStatus, InputFile, TooLarge};

fn with_files(source: &str, files: &[(&str, &str)]) -> types::Request {
    let file = |(path, text): &(&str, &str)| InputFile { path: (*path).into(), bytes: (*text).into() };
    types::Request { files: Some(files.iter().map(file).collect()), ..request(source) }
}

fn with_context(json: &str) -> types::Request {
    types::Request { context: Some(json.into()), ..request("print never") }
}

fn refused(sandbox: &Sandbox, request: types::Request) -> SandboxError {
    sandbox.task(request).and_then(|task| sandbox.execute(&task)).unwrap_err()
}

#[test]
fn files_are_there_before_the_script_and_are_not_its_own() {
    let (_, sandbox) = closed(no_policy());
    let task = sandbox.task(with_files("write new", &[("a/b", "1"), ("twice", "no"), ("twice", "2")])).unwrap();
    let executed = sandbox.execute(&task).unwrap();
    assert_eq!((&executed.changes.created[..], executed.changes.modified.len()), (&["new".to_owned()][..], 0));
    let read = |path| executed.files.read(path, 0, None).unwrap();
    assert_eq!((read("a/b"), read("twice"), read("new")), (b"1".to_vec(), b"2".to_vec(), Vec::new()));
    let other = sandbox.execute(&sandbox.task(request("print 1")).unwrap()).unwrap();
    assert!(other.files.list("**").unwrap().is_empty(), "another execution has other files");
}

#[test]
fn files_that_cannot_be_written_are_named() {
    let (_, sandbox) = closed(limits(|limits| limits.workspace_bytes = Some(1_000)));
    for path in ["/a", "../a", "", "a\0"] {
        let SandboxError::InvalidArgument(text) = refused(&sandbox, with_files("", &[(path, "")])) else { panic!() };
        assert!(text.starts_with("`files`: "), "{text}");
    }
    let large = "x".repeat(5_000);
    let SandboxError::InvalidArgument(text) = refused(&sandbox, with_files("", &[("large", &large)])) else { panic!() };
    assert!(text.starts_with("`files`: `large`: "), "{text}");
}

#[test]
fn context_is_json_within_its_limit_and_set_before_the_script() {
    let (_, sandbox) = closed(limits(|limits| limits.stdin_bytes = Some(3)));
    let SandboxError::InvalidArgument(text) = refused(&sandbox, with_context("{")) else { panic!() };
    assert!(text.starts_with("`context` is not JSON"), "{text}");
    let too_large = SandboxError::StdinTooLarge(TooLarge { bytes: 4, limit: 3 });
    assert_eq!(refused(&sandbox, with_context("[ 0]")), too_large);
    // The fake's variables are named by numbers, so its guest rejects this name and the script is not run.
    assert!(
        matches!(refused(&sandbox, with_context("[0]")), SandboxError::Variable(text) if text.contains("`context`"))
    );
}

#[test]
fn guidance_says_what_a_limit_means() {
    let (_, sandbox) = closed(limits(|limits| limits.fuel = Some(10_000)));
    let guidance = execute(&sandbox, "spin").guidance;
    assert_eq!(
        (guidance.fuel.status, guidance.fuel.used, guidance.fuel.limit),
        (FuelStatus::Exhausted, 10_000, 10_000)
    );
    assert_eq!(guidance.fuel.suggested_limit, Some(20_000));
    assert_eq!(guidance.advice.iter().map(|advice| advice.kind).collect::<Vec<_>>(), [AdviceKind::Fuel]);
    let well = execute(&sandbox, "print 1").guidance;
    assert_eq!((well.fuel.suggested_limit, well.advice.len()), (None, 0));
}

#[test]
fn validation_needs_the_source_alone() {
    let (_, sandbox) = closed(no_policy());
    let request = types::Request { stdin: Some(b"x".to_vec()), deadline_ms: Some(0), ..with_context("{") };
    let task = sandbox.task(types::Request { source: "print 1".into(), ..request }.for_validation()).unwrap();
    assert!(sandbox.validate(&task).unwrap().is_empty());
}
